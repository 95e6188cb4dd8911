"""Which columns rows may have that become records, and how they are picked from a task's Arrow data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioprod.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["SinkColumns", "sink_columns"]


class _Kind(NamedTuple):
    types: tuple[str, ...]
    """In Spark's short notation."""
    hint: str
    """How to come by one; `{}` stands for the expression that is of another type."""
    of: tuple[str, ...] = ("",)
    """How the notations begin of those types that the hint can do it for."""


_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_BYTES: Final = _Kind(("string", "binary"), "Cast it: cast({} as string).")
_KINDS: Final[Mapping[str, _Kind]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": _Kind(("string",), "Cast it: cast({} as string)."),
    "partition": _Kind(("int",), "Cast it: cast({} as int).", (*_NUMBERS, "string")),
    "headers": _Kind(
        ("array<struct<key:string,value:binary>>",),
        "Make it of pairs: array(struct('source' as key, cast('web' as binary) as value)).",
    ),
    "timestamp": _Kind(
        ("timestamp",), "Cast it: cast({} as timestamp).", ("string", "date", "timestamp", *_NUMBERS[4:])
    ),
}

_NESTED: Final = ("array<", "map<", "struct<", "variant")


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Where the parts of a record are among a data frame's columns: index by name."""

    places: tuple[tuple[str, int], ...]

    def __contains__(self, name: str) -> bool:
        return any(name == known for known, _ in self.places)

    def pick(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a record, under their names, of one batch of the data frame. Copies nothing."""
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [batch.column(index) for _, index in self.places], names=[name for name, _ in self.places]
        )


def sink_columns(
    schema: StructType,
    *,
    topic: str | None,
    include_headers: bool = True,
    expressions: Mapping[str, str] | None = None,
) -> SinkColumns:
    """Check a data frame's columns against what a record has; other columns are left out, as Spark's sink does.

    `topic` is the one for all rows, which wins over the column. Names are looked up as Spark does, whatever their
    case. `expressions` are what a user gave for columns that were made of them. Raises ConfigError for a column that
    is missing, there twice, or of another type.
    """
    left_out = {name for name, leaves in (("topic", topic is not None), ("headers", not include_headers)) if leaves}
    places: dict[str, int] = {}
    for index, field in enumerate(schema.fields):
        name = field.name.lower()
        kind = _KINDS.get(name)
        if kind is None or name in left_out:
            continue
        if name in places:
            raise ConfigError(f"The data frame has two columns {name!r}: rename or drop one.")
        given = _notation(field.dataType)
        if given not in kind.types:
            expression = (expressions or {}).get(name)
            what = f"The column {field.name!r}" if expression is None else f"The expression for {name}, {expression},"
            raise ConfigError(
                f"{what} is of type {given}: a record's {name} is {' or '.join(kind.types)}.",
                hint=_hint(name, given, expression or field.name),
            )
        places[name] = index
    if "value" not in places:
        raise ConfigError(
            f"The data frame has no column value; it has {', '.join(schema.fieldNames()) or 'none at all'}.",
            hint="Select what the records are to hold as value, for example to_json(struct(*)) as value.",
        )
    if topic is None and "topic" not in places:
        raise ConfigError(
            "There is no topic: neither the option topic nor a column topic is given.", hint='Add option("topic", ...).'
        )
    return SinkColumns(tuple(places.items()))


def _hint(name: str, given: str, expression: str) -> str | None:
    """How an expression of type `given` becomes part of a record, None where Spark has no simple way to it."""
    if given.startswith(_NESTED) and name in ("key", "value"):
        return f"Make it text: to_json({expression})."
    if given in _NUMBERS[:4] and name == "timestamp":
        return f"Say what it counts: timestamp_millis({expression}) or timestamp_seconds({expression})."
    kind = _KINDS[name]
    return kind.hint.format(expression) if given.startswith(kind.of) else None


def _notation(kind: Any) -> str:
    """A type without what does not matter: collations, lengths, and how the struct of a header names its fields."""
    text = str(kind.simpleString()).lower()
    if text.startswith(("varchar", "char", "string")):
        return "string"
    if text.startswith("array<struct<"):
        fields = kind.elementType.fields
        return f"array<struct<{','.join(f'{one.name.lower()}:{_notation(one.dataType)}' for one in fields)}>>"
    return text
