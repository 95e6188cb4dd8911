"""JSON with its JSON Schema in a registry, validated by jsonschema. https://json-schema.org/"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Unpack

from aioprod._short_reprs import printable
from aioprod.errors import ConfigError, SerializationError
from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.client import SchemaRegistry
from aioprod.schema_registry.deserializing import Decode, RegistryDeserializer
from aioprod.schema_registry.json_work import PATTERNS, STEPS, counted
from aioprod.schema_registry.options import SerializerOptions
from aioprod.schema_registry.patterns import Patterns
from aioprod.schema_registry.references import characters_of, referenced
from aioprod.schema_registry.schemas import Schema, SchemaType
from aioprod.schema_registry.serializing import Encode, RegistrySerializer
from aioprod.schema_registry.stack import check_stack
from aioprod.schema_registry.work import Steps

try:
    from jsonschema.protocols import Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # type: ignore[import-untyped]
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7, specification_with
except ImportError as error:
    raise missing("aioprod.schema_registry.json_schema", error) from error

__all__ = ["JsonSchemaDeserializer", "JsonSchemaSerializer"]

_SHOWN_MAX: Final = 200

_STEPS: Final = 10_000
_STEPS_PER_BYTE: Final = 20
"""An ordinary value takes less than one."""
_STEPS_OF_SCHEMA: Final = 100_000
_STEPS_PER_BYTE_OF_SCHEMA: Final = 200
_CHARACTERS_OF_INSTRUCTION: Final = 10
"""As much memory as these of a schema takes an instruction of a pattern."""
_RULES_OF_SCHEMAS: Final = Patterns()
"""Patterns of the meta-schemas, by which schemas are checked."""


class JsonSchemaSerializer(RegistrySerializer):
    """Values that JSON knows to compact JSON in UTF-8, validated by their schema unless `validate=False`.

    `schema` is the JSON text, or a Schema with references; a `$ref` to anything else is not fetched. Other options are
    those of every `RegistrySerializer`.
    """

    _encode = staticmethod(json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode)

    _type: ClassVar[SchemaType] = "JSON"

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Schema | None = None,
        *,
        validate: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None:
        given = _given(schema)
        super().__init__(registry, given, **options)
        self._validates = validate
        contents = None if given is None else _contents(given)
        title = contents.get("title") if isinstance(contents, dict) else None
        self._title = title if isinstance(title, str) else None

    @property
    def record_name(self) -> str | None:
        """The schema's title."""
        return self._title

    async def _encoder(self, schema: Schema) -> Encode:
        check = None
        if self._validates:
            check, _ = await asyncio.to_thread(_checker, schema, await referenced(self._registry, schema))

        def encode(value: Any) -> bytes:
            try:
                payload = self._encode(value).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise SerializationError(f"it can't be written as JSON: {error}.") from error
            if check is not None:
                check(value, len(payload))
            return payload

        return encode


class JsonSchemaDeserializer(RegistryDeserializer):
    """JSON to values, validated by the schema that they were written with unless `validate=False`."""

    _type: ClassVar[SchemaType] = "JSON"
    _on_loop_max: ClassVar[int] = 2_048

    def __init__(
        self, registry: SchemaRegistry, *, validate: bool = True, from_dict: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(registry, from_dict=from_dict)
        self._validates = validate

    async def _decoder(self, schema: Schema) -> tuple[Decode, int]:
        check, characters = None, 0
        if self._validates:
            check, characters = await asyncio.to_thread(_checker, schema, await referenced(self._registry, schema))

        def decode(payload: bytes) -> Any:
            try:
                value = json.loads(payload)
            except (ValueError, RecursionError) as error:
                raise SerializationError(f"its bytes are not JSON: {error}.") from error
            if check is not None:
                check(value, len(payload))
            return value

        return decode, characters


def _given(schema: str | Schema | None) -> Schema | None:
    """The schema that a user gave; raises ConfigError for one that is none."""
    if schema is None:
        return None
    given = Schema(schema, "JSON") if isinstance(schema, str) else schema
    if not isinstance(given, Schema) or given.type != "JSON" or not isinstance(given.text, str):
        raise ConfigError("The schema is not a JSON schema: give its JSON text, or a Schema of type JSON.")
    if given.flaw is not None:
        raise ConfigError(f"The schema {given.flaw}.")
    try:
        _validator_class(_contents(given), len(given.text))
    except _WrongSchemaError as error:
        raise ConfigError(f"The JSON schema {error}.") from error
    return given


class _WrongSchemaError(Exception):
    """What is wrong with a schema, as the rest of a sentence about it."""


def _contents(schema: Schema) -> Any:
    """The object, or true or false, that a schema is; raises _WrongSchemaError."""
    try:
        contents = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise _WrongSchemaError(f"is not JSON: {error}") from error
    if not isinstance(contents, (dict, bool)):
        raise _WrongSchemaError("is neither a JSON object nor true or false")
    if isinstance(contents, dict) and not isinstance(contents.get("$schema", ""), str):
        raise _WrongSchemaError('has a "$schema" that is not a URI')
    return contents


def _validator_class(contents: Any, size: int) -> type[Validator]:
    """The class that checks values by a schema; raises _WrongSchemaError for one that is not valid."""
    try:
        check_stack()  # Also for what _checker does later.
        kind = counted(validator_for(contents))
        rules = kind(kind.META_SCHEMA, registry=Registry(), format_checker=kind.FORMAT_CHECKER)
        PATTERNS.set(_RULES_OF_SCHEMAS)
        STEPS.set(Steps(_STEPS_OF_SCHEMA + _STEPS_PER_BYTE_OF_SCHEMA * size))
        wrong = next(rules.iter_errors(contents), None)
    except Exception as error:  # As in check() below.
        raise _WrongSchemaError(f"can't be checked: {_said(error)}") from error
    if wrong is not None:
        raise _WrongSchemaError(f"is not valid: {printable(wrong.message, _SHOWN_MAX)}")
    return kind


def _validator(kind: type[Validator], contents: Any, others: Registry[Any]) -> Validator:
    """The validator, which knows where each anchor and $id is: jsonschema would look for them again for each value."""
    dialect = kind.META_SCHEMA.get("$id") or kind.META_SCHEMA.get("id", "")
    root = specification_with(dialect).create_resource(contents)
    uri = root.id() or ""
    known = SPECIFICATIONS.combine(others).with_resource(uri, root)
    with contextlib.suppress(Exception):  # Of what is no schema: a $ref that needs the same search raises it then.
        known = known.crawl()
    make: Any = kind
    validator: Validator = make(contents, registry=known, _resolver=known.resolver(uri))
    return validator


def _checker(schema: Schema, references: Mapping[str, Schema]) -> tuple[Callable[[Any, int], None], int]:
    """What raises SerializationError for a value, of so many bytes, that does not fit, or for a schema that is none.

    Returns its size in memory, too, in characters of a schema.
    """
    wrong_one = "the JSON schema"
    try:
        contents = _contents(schema)
        kind = _validator_class(contents, len(schema.text))
        resources = []
        for name, other in references.items():
            wrong_one = f"the schema {name!r}, to which the JSON schema refers,"
            resources.append((name, Resource.from_contents(_contents(other), default_specification=DRAFT7)))
    except _WrongSchemaError as error:
        raise SerializationError(f"{wrong_one} {error}.") from error
    known: Registry[Any] = Registry().with_resources(resources)
    try:
        patterns = Patterns([contents, *(resource.contents for _, resource in resources)])
        pattern = patterns.unbounded
    except Exception as error:  # As in check() below.
        raise SerializationError(f"the JSON schema can't be used: {_said(error)}.") from error
    if pattern is not None:
        raise SerializationError(
            f"the JSON schema has unevaluatedProperties and, in patternProperties, {printable(pattern, _SHOWN_MAX)!r}, "
            "which has choices or repetitions: together they can't be checked in a bounded time.",
            hint="Use additionalProperties, a simpler pattern, or validate=False.",
        )
    validator = _validator(kind, contents, known)

    def check(value: Any, size: int) -> None:
        PATTERNS.set(patterns)
        STEPS.set(Steps(_STEPS + _STEPS_PER_BYTE * size))
        try:
            wrong = next(validator.iter_errors(value), None)
        except SerializationError:
            raise
        except Unresolvable as error:
            raise SerializationError(
                f"the JSON schema refers to {printable(error.ref, _SHOWN_MAX)!r}, which is not known.",
                hint="Name that schema in the references of the Schema.",
            ) from error
        except Exception as error:
            # Of a regular expression, of numbers that are too large, of what a $ref points to: jsonschema checks only
            # some of a schema before, and lets pass what the functions that it calls raise.
            raise SerializationError(f"the value can't be checked by the JSON schema: {_said(error)}.") from error
        if wrong is not None:
            place, words = printable(wrong.json_path, _SHOWN_MAX), printable(wrong.message, _SHOWN_MAX)
            raise SerializationError(f"the value does not fit the JSON schema at {place}: {words}.")

    return check, characters_of(schema, references) + _CHARACTERS_OF_INSTRUCTION * patterns.instructions


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "the nesting is too deep, or a $ref leads back to itself"
    try:
        words = printable(" ".join(str(error).split()), _SHOWN_MAX).rstrip(".")
    except RecursionError:  # The text of some has the value.
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
