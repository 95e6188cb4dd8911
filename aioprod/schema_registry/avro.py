"""Avro records with their schema in a registry, by fastavro. https://avro.apache.org/docs/"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, ClassVar, Final, Unpack

from aioprod._short_reprs import printable
from aioprod.errors import ConfigError, SerializationError
from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.avro_defaults import check_written_defaults
from aioprod.schema_registry.avro_parts import check_defaults
from aioprod.schema_registry.avro_reading import InterruptibleBytes, check_items, read_bounded
from aioprod.schema_registry.avro_schemas import (
    DEPTH_MAX,
    SHOWN_MAX,
    AvroSchema,
    check_depth,
    full_name,
    limit_decimals,
    parsed,
    said,
)
from aioprod.schema_registry.client import SchemaRegistry
from aioprod.schema_registry.deserializing import Decode, RegistryDeserializer
from aioprod.schema_registry.options import SerializerOptions
from aioprod.schema_registry.references import characters_of, referenced
from aioprod.schema_registry.schemas import Schema, SchemaType
from aioprod.schema_registry.serializing import Encode, RegistrySerializer

try:
    from fastavro import schemaless_reader, schemaless_writer
    from fastavro._read_py import schemaless_reader as python_reader
    from fastavro.validation import validate
except ImportError as error:
    raise missing("aioprod.schema_registry.avro", error) from error

__all__ = ["AvroDeserializer", "AvroSerializer"]

_READER_DEPTH_MAX: Final = 500
"""How many types the compiled reader may be inside: it needs 1 KiB of stack for each, and a thread may have 1 MiB."""


class AvroSerializer(RegistrySerializer):
    """Values as fastavro has them (a dict for a record) to Avro.

    `schema` is Avro's JSON text, or a Schema with references. `strict` raises for values that Avro could write but that
    do not fit exactly: a number out of the schema's range, a field that the schema does not have, or that is missing
    and has a default; it costs about as much as encoding. Other options are those of every `RegistrySerializer`.
    """

    _type: ClassVar[SchemaType] = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Schema | None = None,
        *,
        strict: bool = False,
        **options: Unpack[SerializerOptions],
    ) -> None:
        given = _given(schema)
        super().__init__(registry, given, **options)
        self._strict = strict
        self._record_name = None if given is None else _name_in(given)

    @property
    def record_name(self) -> str | None:
        """The full name of the outermost type, None for a union."""
        return self._record_name

    async def _encoder(self, schema: Schema) -> Encode:
        return await asyncio.to_thread(self._made, schema, await referenced(self._registry, schema))

    def _made(self, schema: Schema, references: Mapping[str, Schema]) -> Encode:
        avro = parsed(schema, references)
        if avro.is_bytes:
            return _plain_bytes
        check_written_defaults(avro.types)
        types, is_limited = avro.types, avro.depth is not None and avro.depth <= DEPTH_MAX
        name, strict = _shown_name(schema), self._strict

        def encode(value: Any) -> bytes:
            if not is_limited:
                check_depth(value)
            target = BytesIO()
            try:
                if strict:
                    validate(value, types, strict=True)
                schemaless_writer(target, types, value, strict=strict)
            except Exception as error:
                raise SerializationError(f"the value does not fit the Avro schema {name}: {said(error)}.") from error
            payload = target.getvalue()
            if avro.free_items_max is not None:
                check_items(payload, types, avro.free_items_max + len(payload))
            return payload

        return encode


class AvroDeserializer(RegistryDeserializer):
    """Avro to values as fastavro has them.

    With `schema`, a value has the fields of that schema, whichever version of it wrote the record (Avro's schema
    resolution); else those that were written.
    """

    _type: ClassVar[SchemaType] = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Schema | None = None,
        *,
        from_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(registry, from_dict=from_dict)
        self._schema = _given(schema)

    async def _decoder(self, schema: Schema) -> tuple[Decode, int]:
        references = await referenced(self._registry, schema)
        of_wanted = {} if self._schema is None else await referenced(self._registry, self._schema)
        decode = await asyncio.to_thread(self._made, schema, references, of_wanted)
        return decode, characters_of(schema, references)

    def _made(self, schema: Schema, references: Mapping[str, Schema], of_wanted: Mapping[str, Schema]) -> Decode:
        avro = parsed(schema, references)
        if avro.is_bytes:
            return bytes
        wanted = None
        if self._schema is not None:
            wanted = parsed(self._schema, of_wanted).types
            check_defaults(wanted)
        types, size_max = avro.types, _compiled_size_max(avro)
        limit_decimals(types)
        name = _shown_name(schema)

        def decode(payload: bytes) -> Any:
            source = InterruptibleBytes(payload) if len(payload) > self._on_loop_max else BytesIO(payload)
            try:
                if avro.free_items_max is not None:
                    value = read_bounded(source, types, wanted, avro.free_items_max + len(payload))
                else:
                    read = schemaless_reader if len(payload) <= size_max else python_reader
                    value = read(source, types, wanted)
            except RecursionError as error:
                raise SerializationError(f"its value of the Avro schema {name} is nested too deeply.") from error
            except Exception as error:
                raise SerializationError(f"its bytes do not fit the Avro schema {name}: {said(error)}.") from error
            left = len(source.read())
            if left:
                raise SerializationError(f"{left} bytes follow the value of the Avro schema {name}.")
            return value

        return decode


def _given(schema: str | Schema | None) -> Schema | None:
    """The schema that a user gave; raises ConfigError for one that is none."""
    if schema is None:
        return None
    given = Schema(schema) if isinstance(schema, str) else schema
    if not isinstance(given, Schema) or given.type != "AVRO":
        raise ConfigError("The schema is not an Avro schema: give its JSON text, or a Schema of type AVRO.")
    if given.flaw is not None:
        raise ConfigError(f"The schema {given.flaw}.")
    try:
        if given.references:
            json.loads(given.text)
        else:
            parsed(given, {})
    except SerializationError as error:
        raise ConfigError(f"The Avro schema can't be used: {error.message}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The Avro schema can't be used: it is not JSON: {error}.") from error
    return given


def _name_in(schema: Schema) -> str | None:
    return full_name(json.loads(schema.text))


def _shown_name(schema: Schema) -> str:
    return printable(_name_in(schema) or "of a union", SHOWN_MAX)


def _plain_bytes(value: Any) -> bytes:
    """A schema of bytes alone is written without Avro's length, as Java's serializer does."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise SerializationError(f"the value does not fit the Avro schema bytes: it is of type {type(value).__name__}.")


def _compiled_size_max(avro: AvroSchema) -> int:
    """How many bytes fastavro's compiled reader may get: it does not check how deep the stack is."""
    if avro.depth is not None and avro.depth <= _READER_DEPTH_MAX:
        return sys.maxsize
    return _READER_DEPTH_MAX // avro.depth_per_byte - 1
