"""Records taken back out of the buffers of a table, as plain Python."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["bytes_of", "records_of", "table_records"]


def numbers(buffer: memoryview, kind: str) -> list[int]:
    return [number for (number,) in struct.iter_unpack(f"={kind}", buffer)]


def bytes_of(column: Any) -> list[bytes | None]:
    """The strings of a `BytesBuffers`, after checks of its shape."""
    places = numbers(column.places, "i")
    assert len(places) == column.rows + 1
    assert places[0] == 0
    assert places[-1] == len(column.data)
    assert (column.validity is None) == (column.nulls == 0)
    valid = [column.validity is None or bool(column.validity[at >> 3] >> (at & 7) & 1) for at in range(column.rows)]
    assert valid.count(False) == column.nulls
    return [bytes(column.data[places[at] : places[at + 1]]) if valid[at] else None for at in range(column.rows)]


def records_of(columns: Any) -> list[tuple[object, ...]]:
    """The records of `RecordColumns`, in the shape of `ParsedRecord`; headers () where there is no column of them."""
    headers: list[tuple[tuple[str, bytes | None], ...]] = [()] * columns.rows
    if columns.headers is not None:
        places = numbers(columns.headers.places, "i")
        names, values = bytes_of(columns.headers.names), bytes_of(columns.headers.values)
        assert len(places) == columns.rows + 1
        assert places[-1] == len(names) == len(values)
        pairs = [((name or b"").decode(), value) for name, value in zip(names, values, strict=True)]
        headers = [tuple(pairs[places[at] : places[at + 1]]) for at in range(columns.rows)]
    offsets, times = numbers(columns.offsets, "q"), numbers(columns.timestamps, "q")
    keys, values_ = bytes_of(columns.keys), bytes_of(columns.values)
    return list(zip(offsets, times, keys, values_, headers, strict=True))


def table_records(
    module: Any,
    batch: Any,
    start: int,
    end: int,
    *,
    rows_max: int = 1000,
    size_max: int = 1 << 20,
    headers: bool = True,
) -> list[list[tuple[object, ...]]]:
    """The records of a batch table by table; `module` is `aioprod.records.table` of either build."""
    table = module.RecordTable(rows_max=rows_max, size_max=size_max, headers=headers)
    reader = module.TableReader(batch, start, end)
    found = []
    while not reader.read(table):
        found.append(records_of(table.take()))
    found.append(records_of(table.take()))
    return found
