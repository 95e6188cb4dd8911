"""Columns of records as arrays of pyarrow, over the same memory; importing this module needs pyarrow."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from aioprod.records.table import BytesBuffers, RecordColumns

__all__ = ["HEADERS", "MS", "Repeated", "bytes_array", "headers_array", "plain_array"]

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))
"""The type of a column of headers."""

MS: Final = pa.timestamp("ms", "UTC")
"""The type of timestamps as brokers store them."""


class Repeated:
    """Columns with one value in all rows. Each is a part of a longer column that is made once."""

    def __init__(self) -> None:
        self._held: dict[tuple[Any, int | str], Any] = {}

    def array(self, kind: Any, value: int | str, rows: int) -> Any:
        """An array of type `kind` with `rows` times the value."""
        held = self._held.get((kind, value))
        if held is None or len(held) < rows:
            held = self._held[kind, value] = pa.repeat(pa.scalar(value, kind), rows)
        return held.slice(0, rows)


def plain_array(kind: Any, rows: int, data: memoryview) -> Any:
    """An array of numbers without nulls."""
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def bytes_array(column: BytesBuffers, kind: Any = None) -> Any:
    """An array of byte strings, or of type `kind`."""
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.places), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind or pa.binary(), column.rows, buffers, column.nulls)


def headers_array(columns: RecordColumns) -> Any:
    """A list for each record; null for one without headers, as Spark's own source has it."""
    assert columns.headers is not None
    places = plain_array(pa.int32(), columns.rows + 1, columns.headers.places)
    pairs = pa.StructArray.from_arrays(
        [bytes_array(columns.headers.names, pa.string()), bytes_array(columns.headers.values)], fields=list(_HEADER)
    )
    is_empty = pyarrow.compute.equal(places[1:], places[:-1])
    return pa.ListArray.from_arrays(places, pairs, type=HEADERS, mask=is_empty)
