"""What the fake registry knows of the formats: whether a schema is valid, the same as another, compatible."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from aioprod.errors import UsageError
from aioprod.testing.schema_registry.avro_rules import unreadable

try:
    from fastavro.repository import AbstractSchemaRepository, SchemaRepositoryError
    from fastavro.schema import SchemaParseException, UnknownType, load_schema
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
except ImportError as error:
    raise UsageError(
        f"FakeSchemaRegistry needs {error.name or 'a package'}, which is not installed.",
        hint="pip install 'aioprod[schema-registry,testing]'",
    ) from error

__all__ = ["InvalidSchemaError", "canonical", "check", "differences"]


class InvalidSchemaError(Exception):
    """The schema is not valid; the text says why."""


def check(kind: str, text: str, references: Mapping[str, str]) -> None:
    """Raise InvalidSchemaError for a schema that is not valid; `references` are name -> text of those it refers to.

    Of Protobuf, descriptors in base64 are checked; the text of a `.proto` file only for not being empty.
    """
    if kind == "AVRO":
        _avro(text, references)
    elif kind == "JSON":
        contents = _json(text)
        if type(contents) not in (dict, bool):
            raise InvalidSchemaError("It is neither a JSON object nor true or false")
        try:
            validator_for(contents).check_schema(contents)
        except SchemaError as error:
            raise InvalidSchemaError(error.message) from error
        except Exception as error:  # jsonschema lets pass what the functions that it calls raise.
            raise InvalidSchemaError(f"It can't be checked: {type(error).__name__}: {error}") from error
    elif not text.strip():
        raise InvalidSchemaError("The schema is empty")
    elif "syntax" not in text and "message" not in text:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError

        try:
            FileDescriptorProto.FromString(b64decode(text, validate=True))
        except (ValueError, DecodeError) as error:
            raise InvalidSchemaError("It is neither a .proto file nor a file's descriptor") from error


def canonical(kind: str, text: str, *, normalize: bool) -> str:
    """The text by which two schemas are the same: of JSON, the order of keys counts unless `normalize`."""
    if kind == "PROTOBUF":
        return text.strip()
    contents = _json(text)
    if kind == "AVRO":
        return json.dumps(_shortened(contents), separators=(",", ":"), sort_keys=True)
    return json.dumps(contents, separators=(",", ":"), sort_keys=normalize)


def differences(
    kind: str, level: str, new: tuple[str, Mapping[str, str]], old: tuple[str, Mapping[str, str]]
) -> list[str]:
    """Why `new` is not compatible with `old`, each a schema's text with its references; empty where it is.

    `level` is NONE, BACKWARD (new reads old), FORWARD (old reads new) or FULL. Only Avro is compared.
    """
    if kind != "AVRO" or level == "NONE":
        return []
    wanted, known = _avro(*new), _avro(*old)
    found: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        found += unreadable(wanted, known)
    if level.startswith(("FORWARD", "FULL")):
        found += unreadable(known, wanted)
    return found


class _Named(AbstractSchemaRepository):
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def load(self, name: str) -> Any:
        if name not in self._texts:
            raise SchemaRepositoryError(name)
        return _json(self._texts[name])


def _avro(text: str, references: Mapping[str, str]) -> Any:
    try:
        return load_schema("$root", repo=_Named({**references, "$root": text}))
    except UnknownType as error:
        raise InvalidSchemaError(f"Undefined name: {error.name!r}") from error
    except SchemaRepositoryError as error:
        raise InvalidSchemaError(f"Undefined name: {str(error)!r}") from error
    except (SchemaParseException, TypeError, KeyError, AttributeError) as error:
        raise InvalidSchemaError(str(error)) from error


def _shortened(schema: Any) -> Any:
    """An Avro schema with `"string"` for `{"type": "string"}`, which are the same."""
    if isinstance(schema, list):
        return [_shortened(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() == {"type"} and isinstance(schema["type"], str):
        return schema["type"]
    inner = {name: _shortened(schema[name]) for name in ("type", "items", "values") if name in schema}
    fields = [{**field, "type": _shortened(field["type"])} for field in schema.get("fields", ())]
    return {**schema, **inner, **({"fields": fields} if fields else {})}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"It is not JSON: {error}") from error
