"""Whether records of one Avro schema can be read by another: Avro's rules of schema resolution.

https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["unreadable"]

_PROMOTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "int": frozenset({"long", "float", "double"}),
        "long": frozenset({"float", "double"}),
        "float": frozenset({"double"}),
        "string": frozenset({"bytes"}),
        "bytes": frozenset({"string"}),
    }
)
"""Written type -> further types that can read it."""


def unreadable(reader: Any, writer: Any) -> list[str]:
    """Why `reader` can't read what `writer` wrote, each reason a clause; empty where it can.

    Both are schemas as fastavro parses them: names are full ones.
    """
    return list(_Comparison(_named(reader), _named(writer)).reasons(reader, writer, ""))


class _Comparison:
    """Two schemas with their named types; each pair of records is compared once, as they may contain themselves."""

    def __init__(self, reader_names: Mapping[str, Any], writer_names: Mapping[str, Any]) -> None:
        self._reader_names = reader_names
        self._writer_names = writer_names
        self._compared: set[tuple[str, str]] = set()

    def reasons(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        reader, writer = _defined(reader, self._reader_names), _defined(writer, self._writer_names)
        if isinstance(writer, list):
            for branch in writer:
                yield from self.reasons(reader, branch, path)
        elif isinstance(reader, list):
            if not any(not list(self.reasons(branch, writer, path)) for branch in reader):
                yield f"{_at(path)} {_kind(writer)} is in no branch of the union that reads it"
        elif _kind(reader) != _kind(writer):
            if _kind(reader) not in _PROMOTIONS.get(_kind(writer), ()):
                yield f"{_at(path)} {_kind(writer)} can't be read as {_kind(reader)}"
        else:
            yield from self._same_kind(reader, writer, path)

    def _same_kind(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        kind = _kind(reader)
        if kind == "record":
            yield from self._records(reader, writer, path)
        elif kind == "array":
            yield from self.reasons(reader["items"], writer["items"], f"{path}[]")
        elif kind == "map":
            yield from self.reasons(reader["values"], writer["values"], f"{path}{{}}")
        elif kind == "enum":
            missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            if missing and "default" not in reader:
                yield f"{_at(path)} the enum lacks {', '.join(missing)}"
        elif kind == "fixed" and reader["size"] != writer["size"]:
            yield f"{_at(path)} the size {writer['size']} can't be read as {reader['size']}"

    def _records(self, reader: Any, writer: Any, path: str) -> Iterator[str]:
        pair = reader["name"], writer["name"]
        if pair in self._compared:
            return
        self._compared.add(pair)
        known = {writer["name"], writer["name"].rpartition(".")[2]}
        if not known & {reader["name"], reader["name"].rpartition(".")[2], *reader.get("aliases", ())}:
            yield f"{_at(path)} the record {writer['name']} can't be read as {reader['name']}"
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            names = (field["name"], *field.get("aliases", ()))
            source = next((written[name] for name in names if name in written), None)
            if source is not None:
                yield from self.reasons(field["type"], source["type"], f"{path}.{field['name']}")
            elif "default" not in field:
                place = f"{path}.{field['name']}".lstrip(".")
                yield f"the new field {place!r} has no default"


def _named(schema: Any) -> dict[str, Any]:
    """Full name -> definition of all named types in a schema."""
    found: dict[str, Any] = {}

    def visit(schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                visit(branch)
        elif isinstance(schema, dict):
            if "name" in schema:
                found[schema["name"]] = schema
            for inner in (schema.get("type"), schema.get("items"), schema.get("values")):
                visit(inner)
            for field in schema.get("fields", ()):
                visit(field["type"])

    visit(schema)
    return found


def _defined(schema: Any, names: Mapping[str, Any]) -> Any:
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _kind(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _at(path: str) -> str:
    return f"at {path.lstrip('.')!r}" if path else "at its top"
