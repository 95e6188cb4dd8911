"""Avro records with their schema in a registry, by fastavro. https://avro.apache.org/docs/"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from io import BytesIO
from typing import Any, ClassVar, Final, Unpack

from aioprod.errors import ConfigError, SerializationError
from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.client import SchemaRegistry
from aioprod.schema_registry.deserializing import Decode, RegistryDeserializer
from aioprod.schema_registry.options import SerializerOptions
from aioprod.schema_registry.references import referenced
from aioprod.schema_registry.schemas import Schema, SchemaType
from aioprod.schema_registry.serializing import Encode, RegistrySerializer

try:
    from fastavro import schemaless_reader, schemaless_writer
    from fastavro.repository import AbstractSchemaRepository, SchemaRepositoryError
    from fastavro.schema import SchemaParseException, UnknownType, load_schema
    from fastavro.validation import validate
except ImportError as error:
    raise missing("aioprod.schema_registry.avro", error) from error

__all__ = ["AvroDeserializer", "AvroSerializer"]

_ROOT: Final = "$root"


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
        parsed = _parsed(schema, await referenced(self._registry, schema))
        if _is_bytes(parsed):
            return _plain_bytes
        name, strict = _name_in(schema) or "of a union", self._strict

        def encode(value: Any) -> bytes:
            target = BytesIO()
            try:
                if strict:
                    validate(value, parsed, strict=True)
                schemaless_writer(target, parsed, value, strict=strict)
            except Exception as error:
                raise SerializationError(f"the value does not fit the Avro schema {name}: {_said(error)}.") from error
            return target.getvalue()

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

    async def _decoder(self, schema: Schema) -> Decode:
        written = _parsed(schema, await referenced(self._registry, schema))
        if _is_bytes(written):
            return bytes
        wanted = None
        if self._schema is not None:
            wanted = _parsed(self._schema, await referenced(self._registry, self._schema))
        name = _name_in(schema) or "of a union"

        def decode(payload: bytes) -> Any:
            source = BytesIO(payload)
            try:
                value = schemaless_reader(source, written, wanted)
            except Exception as error:
                raise SerializationError(f"its bytes do not fit the Avro schema {name}: {_said(error)}.") from error
            left = len(source.read())
            if left:
                raise SerializationError(f"{left} bytes follow the value of the Avro schema {name}.")
            return value

        return decode


class _References(AbstractSchemaRepository):
    """The schemas by name that fastavro inserts where they are mentioned."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def load(self, name: str) -> Any:
        if name not in self._schemas:
            raise SchemaRepositoryError(name)
        return deepcopy(self._schemas[name])


def _given(schema: str | Schema | None) -> Schema | None:
    """The schema that a user gave; raises ConfigError for one that is none."""
    if schema is None:
        return None
    given = Schema(schema) if isinstance(schema, str) else schema
    if not isinstance(given, Schema) or given.type != "AVRO":
        raise ConfigError("The schema is no Avro schema: give its JSON text, or a Schema of type AVRO.")
    try:
        if given.references:
            json.loads(given.text)
        else:
            _parsed(given, {})
    except SerializationError as error:
        raise ConfigError(f"The Avro schema can't be used: {error.message}") from error
    except ValueError as error:
        raise ConfigError(f"The Avro schema can't be used: it is no JSON: {error}.") from error
    return given


def _parsed(schema: Schema, references: Mapping[str, Schema]) -> Any:
    """The schema as fastavro wants it; raises SerializationError."""
    try:
        named: dict[str, Any] = {}
        for name, other in references.items():
            contents = json.loads(other.text)
            named[name] = contents
            full = _full_name(contents)
            if full is not None:
                named[full] = contents
        named[_ROOT] = json.loads(schema.text)
        return load_schema(_ROOT, repo=_References(named))
    except UnknownType as error:
        raise SerializationError(
            f"it mentions {error.name!r}, which it does not define.",
            hint="Name the schema that defines it in the references of the Schema.",
        ) from error
    except SchemaRepositoryError as error:
        raise SerializationError(
            f"it mentions {str(error)!r}, which it does not define.",
            hint="Name the schema that defines it in the references of the Schema.",
        ) from error
    except json.JSONDecodeError as error:
        raise SerializationError(f"it is no JSON: {error}.") from error
    except (SchemaParseException, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SerializationError(f"it is not valid: {_said(error)}.") from error


def _name_in(schema: Schema) -> str | None:
    return _full_name(json.loads(schema.text))


def _full_name(contents: Any) -> str | None:
    """The full name of a named type, the name of a primitive one, None for a union."""
    if isinstance(contents, str):
        return contents
    if not isinstance(contents, dict):
        return None
    name = contents.get("name", contents.get("type"))
    if not isinstance(name, str):
        return None
    namespace = contents.get("namespace") if "name" in contents else None
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _is_bytes(parsed: Any) -> bool:
    return parsed == "bytes" or (
        isinstance(parsed, dict) and parsed.get("type") == "bytes" and "logicalType" not in parsed
    )


def _plain_bytes(value: Any) -> bytes:
    """A schema of bytes alone is written without Avro's length, as Java's serializer does."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise SerializationError(f"the value does not fit the Avro schema bytes: it is of type {type(value).__name__}.")


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300].rstrip(".")
