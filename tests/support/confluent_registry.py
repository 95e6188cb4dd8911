"""confluent-kafka's serializers on a registry, whose bytes ours have to equal."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from confluent_kafka.serialization import MessageField, SerializationContext

with warnings.catch_warnings():
    # Authlib warns about httpx, when this module has made such warnings be shown always.
    import_module("authlib.deprecate")
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import (
        AsyncSchemaRegistryClient,
        Schema,
        SchemaReference,
        SchemaRegistryClient,
        header_schema_id_serializer,
    )
    from confluent_kafka.schema_registry._async.avro import AsyncAvroDeserializer, AsyncAvroSerializer
    from confluent_kafka.schema_registry._async.json_schema import AsyncJSONDeserializer, AsyncJSONSerializer
    from confluent_kafka.schema_registry._async.protobuf import AsyncProtobufDeserializer, AsyncProtobufSerializer
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

__all__ = [
    "AsyncAvroDeserializer",
    "AsyncAvroSerializer",
    "AsyncJSONDeserializer",
    "AsyncJSONSerializer",
    "AsyncProtobufDeserializer",
    "AsyncProtobufSerializer",
    "AsyncSchemaRegistryClient",
    "AvroSerializer",
    "JSONSerializer",
    "ProtobufSerializer",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
    "options",
    "serialized",
]


def options(framing: str = "prefix", **more: Any) -> dict[str, Any]:
    """The configuration of a serializer as ours has it by default; Confluent's own would look up associations first."""
    given = {"subject.name.strategy.type": "TOPIC", **more}
    return given if framing == "prefix" else {**given, "schema.id.serializer": header_schema_id_serializer}


def serialized(serializer: Any, topic: str, value: Any) -> tuple[bytes, list[Any]]:
    """The bytes and headers that a synchronous serializer makes of a record's value."""
    headers: list[Any] = []
    return serializer(value, SerializationContext(topic, MessageField.VALUE, headers)), headers
