"""Which columns the Arrow data of `send_arrow` may have, and of which types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aioprod.arrow.interface import ArrowArray, Field
from aioprod.arrow.views import (
    bytes_column,
    has_null_rows,
    is_bytes,
    is_integer,
    is_pairs,
    is_text,
    is_timestamp,
    number_column,
    pairs_column,
    takes_bytes,
    timestamp_column,
    type_name,
)
from aioprod.errors import InvalidRecordError
from aioprod.producer.batching.bulk_columns import RecordColumns

__all__ = ["ArrowSchema"]

_BYTES: Final = "binary or string, large, view or dictionary-encoded ones included"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a column may hold: a test of its type, in words for the error, and in a form to cast to."""

    fits: Callable[[Field], bool]
    words: str
    cast: str


_KINDS: Final = {
    "value": Kind(is_bytes, _BYTES, "binary or string"),
    "key": Kind(is_bytes, _BYTES, "binary or string"),
    "topic": Kind(is_text, "string, also large, view or dictionary-encoded", "string"),
    "partition": Kind(is_integer, "an integer type", "int32"),
    "headers": Kind(
        is_pairs,
        "list<struct<name: string, value: binary>> or map<string, binary>, with key for name if you like",
        "one of these",
    ),
    "timestamp": Kind(is_timestamp, "timestamp of any unit, or int64 in milliseconds", "timestamp"),
}
"""By the name of the column."""

_ROWS_WITHOUT_BYTES_MAX: Final = 10_000
"""Rows of a call for which the data holds no bytes at all: a few bytes can say that there are billions of them."""

_UNSENT: Final = "offset"
"""Where a record was read; the broker gives it another one."""


class ArrowSchema:
    """The columns of Arrow data for one `send_arrow`; raises InvalidRecordError for data that can't be records.

    `topic` is the one that was given for all rows, if any.
    """

    def __init__(self, field: Field, topic: str | None) -> None:
        if field.format != "+s" or field.dictionary is not None:
            raise InvalidRecordError(
                f"send_arrow got Arrow data of type {type_name(field)}: give a record batch, a table or a data frame."
            )
        self._rows = 0
        self._fields: dict[str, tuple[int, Field]] = {}
        for index, column in enumerate(field.children):
            self._add(index, column)
        if "value" not in self._fields:
            raise InvalidRecordError(
                "The Arrow data has no column value.", hint="One of nulls only makes records without value."
            )
        if ("topic" in self._fields) == (topic is not None):
            raise InvalidRecordError(
                "The Arrow data has no column topic, and no topic was given."
                if topic is None
                else f"The Arrow data has a column topic, and topic {topic!r} was given for all rows: give one of them."
            )

    def _add(self, index: int, column: Field) -> None:
        if column.name == _UNSENT and is_integer(column):
            return
        kind = _KINDS.get(column.name)
        if kind is None:
            raise InvalidRecordError(
                f"The Arrow data has a column {column.name!r}, which is not part of a record: the columns are "
                f"{', '.join(_KINDS)}.",
                hint="Drop the column, or rename it.",
            )
        if column.name in self._fields:
            raise InvalidRecordError(f"The Arrow data has two columns {column.name!r}.")
        if column.format != "n" and not kind.fits(column):
            raise InvalidRecordError(
                f"The column {column.name!r} of the Arrow data is of type {type_name(column)}: it can be {kind.words}.",
                hint=f"Cast it to {kind.cast}.",
            )
        self._fields[column.name] = index, column

    def columns(self, array: ArrowArray) -> RecordColumns:
        """Views of the columns of an array of this schema; raises InvalidRecordError when it contradicts itself."""
        if has_null_rows(array):
            raise InvalidRecordError("Rows of the Arrow data are null as a whole.", hint="Drop them.")
        self._rows += array.length
        if self._rows > _ROWS_WITHOUT_BYTES_MAX and not any(takes_bytes(field) for _, field in self._fields.values()):
            raise InvalidRecordError(
                f"The Arrow data has {self._rows} rows in columns of nulls, or of values of size 0, only: "
                f"{_ROWS_WITHOUT_BYTES_MAX} of them are allowed in one call.",
                hint="Cast a column to binary, if you mean them.",
            )
        column = dict(self._fields)
        # A column of nulls only is as good as none, but for the value, which must be there.
        for name, (_, field) in self._fields.items():
            if field.format == "n" and name in ("partition", "headers", "timestamp"):
                del column[name]
        value, key, topic = (
            bytes_column(column[name][1], array, column[name][0]) if name in column else None
            for name in ("value", "key", "topic")
        )
        assert value is not None
        partition = column.get("partition")
        headers = column.get("headers")
        timestamp = column.get("timestamp")
        return RecordColumns(
            array.length,
            value,
            key,
            topic,
            None if partition is None else number_column(partition[1], array, partition[0]),
            None if headers is None else pairs_column(headers[1], array, headers[0]),
            None if timestamp is None else timestamp_column(timestamp[1], array, timestamp[0]),
        )
