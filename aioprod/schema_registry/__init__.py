"""Records with their schemas in a schema registry: Avro, JSON Schema and Protobuf, with the extra
`aioprod[schema-registry]`.

The registry is one that speaks Confluent's REST API (Confluent's own, Apicurio, Karapace, Redpanda's). Names are
imported when they are used, so that a program needs only the packages of its format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.schema_registry.avro import AvroDeserializer, AvroSerializer
    from aioprod.schema_registry.client import SchemaRegistry
    from aioprod.schema_registry.config import RegistryConfig
    from aioprod.schema_registry.confluent import ConfluentDeserializer, ConfluentSerializer
    from aioprod.schema_registry.errors import (
        RegistryAccessError,
        RegistryAnswerError,
        RegistryError,
        RegistryUnreachableError,
        SchemaRejectedError,
        UnknownSchemaError,
        UnknownSubjectError,
    )
    from aioprod.schema_registry.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
    from aioprod.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from aioprod.schema_registry.schemas import Reference, RegisteredSchema, Schema

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "ConfluentDeserializer",
    "ConfluentSerializer",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "Reference",
    "RegisteredSchema",
    "RegistryAccessError",
    "RegistryAnswerError",
    "RegistryConfig",
    "RegistryError",
    "RegistryUnreachableError",
    "Schema",
    "SchemaRegistry",
    "SchemaRejectedError",
    "UnknownSchemaError",
    "UnknownSubjectError",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "AvroDeserializer": "avro",
            "AvroSerializer": "avro",
            "ConfluentDeserializer": "confluent",
            "ConfluentSerializer": "confluent",
            "JsonSchemaDeserializer": "json_schema",
            "JsonSchemaSerializer": "json_schema",
            "ProtobufDeserializer": "protobuf",
            "ProtobufSerializer": "protobuf",
            "Reference": "schemas",
            "RegisteredSchema": "schemas",
            "RegistryAccessError": "errors",
            "RegistryAnswerError": "errors",
            "RegistryConfig": "config",
            "RegistryError": "errors",
            "RegistryUnreachableError": "errors",
            "Schema": "schemas",
            "SchemaRegistry": "client",
            "SchemaRejectedError": "errors",
            "UnknownSchemaError": "errors",
            "UnknownSubjectError": "errors",
        },
    )
