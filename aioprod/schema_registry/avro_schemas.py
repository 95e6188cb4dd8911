"""Avro schemas as fastavro takes them, checked before its compiled code, which has no limit of depth, sees them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioprod._short_reprs import printable
from aioprod.errors import SerializationError
from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.avro_parts import check_parts
from aioprod.schema_registry.schemas import Schema

try:
    from fastavro._schema_py import parse_schema  # In a thread, the compiled one lets no other thread run.
    from fastavro.read import LOGICAL_READERS
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as error:
    raise missing("aioprod.schema_registry.avro", error) from error

__all__ = ["DEPTH_MAX", "SHOWN_MAX", "AvroSchema", "check_depth", "full_name", "limit_decimals", "parsed", "said"]

DEPTH_MAX: Final = 200
"""How deep a value may be where its schema sets no limit: the compiled writer needs 2 KiB of stack for each level."""

SHOWN_MAX: Final = 300
"""Characters of a name or an error that a message shows."""

_DECIMAL_BYTES_MAX: Final = 1024
"""Some 2,400 digits. Python makes a Decimal of n bytes in a time that grows with n * n: of a megabyte, in a minute."""

_DECIMAL: Final = "aioprod-decimal"
_LEAVES: Final = frozenset({type(None), bool, int, float, str, bytes, bytearray})
_PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = ("record", "error", "enum", "fixed")
_RECORDS: Final = ("record", "error")
_CONTAINS: Final = {"array": "items", "map": "values", "record": "fields", "error": "fields"}
_NAMED_MAX: Final = 10_000
"""fastavro copies their names for each record."""
_HINT: Final = "Name the schema that defines it in the references of the Schema."


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema as fastavro takes it, with how deep its values can be."""

    types: Any
    depth: int | None
    """How many types are inside each other; None for a type that contains itself."""
    depth_per_byte: int
    """How many types a reader enters at most before it reads the next byte."""
    free_items_max: int | None
    """How many items of a value may take no bytes; None: it has no such items."""

    @property
    def is_bytes(self) -> bool:
        """Whether its values are bytes and nothing else."""
        return self.types == "bytes" or (
            isinstance(self.types, dict) and self.types.get("type") == "bytes" and "logicalType" not in self.types
        )


def parsed(schema: Schema, references: Mapping[str, Schema]) -> AvroSchema:
    """The schema with those that it refers to; raises SerializationError."""
    try:
        contents = _Placing(json.loads(other.text) for other in references.values()).placed(json.loads(schema.text))
        types = parse_schema(contents)
        shape = _Shape(types)
        return AvroSchema(types, shape.depth(), shape.depth_per_byte(), check_parts(types))
    except SerializationError:
        raise
    except json.JSONDecodeError as error:
        raise SerializationError(f"it is not JSON: {error}.") from error
    except RecursionError as error:
        raise SerializationError("its types are nested too deeply.") from error
    except UnknownType as error:
        raise SerializationError(
            f"it mentions {str(error.name)[:SHOWN_MAX]!r}, which is not a type.", hint=_HINT
        ) from error
    except (SchemaParseException, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SerializationError(f"it is not valid: {said(error)}.") from error


def check_depth(value: Any) -> None:
    """Raise SerializationError for a value that is nested deeper than `DEPTH_MAX`, or contains itself."""
    outer = [iter((value,))]
    while outer:
        for inner in outer[-1]:
            if type(inner) not in _LEAVES and isinstance(inner, Collection) and not isinstance(inner, (str, bytes)):
                outer.append(iter(inner.values() if isinstance(inner, Mapping) else inner))
                break
        else:
            outer.pop()
        if len(outer) - 1 > DEPTH_MAX:
            raise SerializationError(f"the value is nested more than {DEPTH_MAX} deep.")


def limit_decimals(types: Any) -> None:
    """Let readers of these types, which `parsed` has returned, raise ValueError for a decimal of very many digits."""
    waiting = [types]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and node.get("logicalType") == "decimal":
            node["logicalType"] = _DECIMAL
        waiting += _inside(node)


def _short_decimal(data: bytes, writer: Any, reader: Any = None) -> Any:
    if len(data) > _DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal has {len(data)} bytes, and {_DECIMAL_BYTES_MAX} is the limit")
    return LOGICAL_READERS[f"{writer['type']}-decimal"](data, writer, reader)


# fastavro's way to read logical types of one's own.
LOGICAL_READERS.update({f"{kind}-{_DECIMAL}": _short_decimal for kind in ("bytes", "fixed")})


def full_name(contents: Any, namespace: str = "") -> str | None:
    """The full name of a named type, the name of a primitive one, None for a union."""
    if isinstance(contents, str):
        return contents
    if not isinstance(contents, dict):
        return None
    name = contents.get("name", contents.get("type"))
    if not isinstance(name, str):
        return None
    namespace = contents.get("namespace", namespace) if "name" in contents else ""
    return f"{namespace}.{name}" if namespace and "." not in name else name


def said(error: Exception) -> str:
    """The first line of an exception's text."""
    return printable((str(error) or type(error).__name__).splitlines()[0], SHOWN_MAX).rstrip(".")


class _Placing:
    """Puts the types of other schemas where a schema mentions them first: fastavro wants one that is whole."""

    def __init__(self, others: Iterator[Any]) -> None:
        self._others: dict[str, tuple[Any, str]] = {}
        self._defined: set[str] = set()
        for contents in others:
            self._collect(contents, "")

    def placed(self, node: Any, namespace: str = "", *, is_own: bool = True) -> Any:
        """A type and what is inside it; `is_own` for those that are written in the schema itself."""
        if isinstance(node, list):
            return [self.placed(branch, namespace, is_own=is_own) for branch in node]
        if isinstance(node, str):
            return node if node in _PRIMITIVE else self._mentioned(node, namespace)
        if not isinstance(node, dict):
            return node
        # fastavro takes a schema with its own marks for one that it has parsed.
        node = {key: value for key, value in node.items() if not key.startswith("__")}
        name = _defined_name(node, namespace)
        if name is not None:
            if name in self._defined and is_own:
                raise SerializationError(f"it defines {name[:SHOWN_MAX]!r} twice.")
            if name in self._defined:
                return name
            self._defined.add(name)
            namespace = name.rpartition(".")[0]
            # The namespace is said because the type may now be inside one of another namespace.
            node |= {"name": name, "namespace": namespace}
        key = _CONTAINS.get(str(node.get("type")))
        if key == "fields" and isinstance(node.get(key), list):
            node[key] = [self._field(field, namespace, is_own) for field in node[key]]
        elif key in ("items", "values") and key in node:
            node[key] = self.placed(node[key], namespace, is_own=is_own)
        return node

    def _field(self, field: Any, namespace: str, is_own: bool) -> Any:
        if not isinstance(field, dict) or "type" not in field:
            return field
        check_depth(field.get("default"))
        return {**field, "type": self.placed(field["type"], namespace, is_own=is_own)}

    def _mentioned(self, name: str, namespace: str) -> Any:
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        if full in self._defined:
            return full
        if full not in self._others:
            raise SerializationError(f"it mentions {full[:SHOWN_MAX]!r}, which it does not define.", hint=_HINT)
        node, outer = self._others[full]
        return self.placed(node, outer, is_own=False)

    def _collect(self, node: Any, namespace: str) -> None:
        """Note the named types in another schema, with the namespace that each is in."""
        name = _defined_name(node, namespace)
        if name is not None:
            self._others.setdefault(name, (node, namespace))
            namespace = name.rpartition(".")[0]
        for inner in _inside(node):
            self._collect(inner, namespace)


class _Shape:
    """How the types of a schema are inside each other. Raises SerializationError for a type without an end."""

    def __init__(self, types: Any) -> None:
        self._types = types
        self._nodes: list[Any] = []
        self._definitions: dict[str, Any] = {}
        self._sizes: dict[str, tuple[int, bool]] = {}
        self._depths: dict[str, int | None] = {}
        self._collect(types)

    def depth(self) -> int | None:
        """The number of types inside each other, None where one contains itself."""
        return self._depth(self._types)

    def depth_per_byte(self) -> int:
        """The number of types that a reader enters before it reads a byte, at most."""
        return max(self._until_byte(node)[0] for node in self._nodes)

    def _collect(self, node: Any) -> None:
        self._nodes.append(node)
        if isinstance(node, dict) and node["type"] in _NAMED:
            self._definitions[node["name"]] = node
            if len(self._definitions) > _NAMED_MAX:
                raise SerializationError(f"it defines more than {_NAMED_MAX} types.")
        for inner in _inside(node):
            self._collect(inner)

    def _depth(self, node: Any) -> int | None:
        node = self._definitions.get(node, node) if isinstance(node, str) else node
        name = node["name"] if isinstance(node, dict) and node["type"] in _NAMED else None
        if name in self._depths:
            return self._depths[name]
        if name is not None:
            self._depths[name] = None
        depths = [self._depth(inner) for inner in _inside(node)]
        known = [depth for depth in depths if depth is not None]
        depth = 1 + max(known, default=0) if len(known) == len(depths) else None
        if name is not None:
            self._depths[name] = depth
        return depth

    def _until_byte(self, node: Any) -> tuple[int, bool]:
        """How many types are entered from here until a byte is read, and whether one is read at all."""
        node = self._definitions.get(node, node) if isinstance(node, str) else node
        if not isinstance(node, dict):
            return 1, node != "null"
        if node["type"] == "fixed":
            return 1, node["size"] > 0
        if node["type"] not in _RECORDS:
            return 1, node["type"] != "null"
        name = node["name"]
        if name not in self._sizes:
            self._sizes[name] = (0, False)  # while its fields are looked at
            sizes = [self._until_byte(field["type"]) for field in node["fields"]]
            deepest = 1 + max((depth for depth, _ in sizes), default=0)
            self._sizes[name] = (deepest, any(reads for _, reads in sizes))
        elif not self._sizes[name][0]:
            raise SerializationError(f"its type {name[:SHOWN_MAX]!r} contains itself without an end.")
        return self._sizes[name]


def _defined_name(node: Any, namespace: str) -> str | None:
    """The full name of a type that is defined here."""
    is_defined = isinstance(node, dict) and node.get("type") in _NAMED and "name" in node
    return full_name(node, namespace) if is_defined else None


def _inside(node: Any) -> Iterator[Any]:
    """The types that a type contains."""
    if isinstance(node, list):
        yield from node
    elif isinstance(node, dict):
        key = _CONTAINS.get(str(node.get("type")))
        inner = None if key is None else node.get(key)
        if key == "fields":
            fields = inner if isinstance(inner, list) else ()
            yield from (field["type"] for field in fields if isinstance(field, dict) and "type" in field)
        elif inner is not None:
            yield inner
