"""Arrow arrays that lie, in memory of exactly the size that aioprod has to trust: under AddressSanitizer each byte read
beyond it is found (`python -m tests.fuzz --sanitize`).

An input is the number of a batch that pyarrow made, and what is changed in it. What the C data interface can't tell
stays true: where buffers are, how many rows they have, and the size of each block of data.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Final

import pyarrow as pa

from aioprod.arrow.columns import BytesColumn
from aioprod.arrow.interface import ArrowArray, Field, open_source
from aioprod.errors import AioprodError, InvalidRecordError, UnknownTopicError
from aioprod.producer.batching.batch import Run
from aioprod.producer.batching.bulk_columns import BulkColumns, RecordColumns
from aioprod.producer.bulk.arrow_schema import ArrowSchema
from aioprod.types import TopicPartition
from tests.support.accumulators import Harness
from tests.support.arrow import BYTES_TYPES, TEXT_TYPES, HandMade, column

__all__ = ["arrow", "arrow_seeds"]

EDIT: Final = 8
"""Bytes of one change: array, what, place, 4 of a number, and the width that it is written with."""

EDITS_MAX: Final = 8
OFFSET_WIDTHS: Final = {"u": 4, "z": 4, "U": 8, "Z": 8}

_c = ctypes.CDLL(None)
_c.malloc.restype = ctypes.c_void_p
_c.malloc.argtypes = [ctypes.c_size_t]
_c.free.argtypes = [ctypes.c_void_p]


@cache
def batches() -> tuple[pa.RecordBatch, ...]:
    """Every layout in every column."""
    values = [b"", None, b"abc", b"of more than twelve bytes", b"x" * 40, b"abc"]
    texts = [None if value is None else value.decode() for value in values]
    pairs = [[("a", b"1"), ("b", None)], None, [], [("name of more than twelve bytes", values[3])], [("c", b"")], []]
    pair = pa.struct({"name": pa.string_view(), "value": pa.large_binary()})
    named = [None if row is None else [{"name": name, "value": value} for name, value in row] for row in pairs]
    kinds = [*BYTES_TYPES.values(), *TEXT_TYPES.values()]
    made = [
        pa.record_batch({"value": column(values if kind in BYTES_TYPES.values() else texts, kind)}) for kind in kinds
    ]
    made += [pa.record_batch({"value": column(values, pa.binary()), "key": batch["value"]}) for batch in made]
    made += [
        pa.record_batch({"value": [b"abc", None, b"def"], "topic": column(["t", "u", "t"], kind)})
        for kind in TEXT_TYPES.values()
    ]
    made += [
        pa.record_batch({"value": pa.array([b"abc", None, b"def"], pa.binary(3))}),
        pa.record_batch({"value": values, "headers": pa.array(pairs, pa.map_(pa.string(), pa.binary()))}),
        pa.record_batch({"value": values, "headers": pa.array(named, pa.large_list(pair))}),
        pa.record_batch({
            "value": values,
            "partition": pa.array([0, None, 1, -1, 2, 3], pa.int16()),
            "timestamp": pa.array([0, None, 1, 2, 3, 4], pa.timestamp("s")),
        }),
    ]  # fmt: skip
    return (*made, *(batch.slice(1) for batch in made))


class Copy:
    """An exported batch whose buffers are copied into memory of their own, of exactly their size."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._made = HandMade(batch)
        self.array = self._made.arrays[0]
        self.field: Field = open_source(self._made.as_array()).field
        self.arrays: list[tuple[Field, ArrowArray, list[int]]] = []
        """Each array below, with the sizes of its buffers."""
        self._blocks: list[int] = []
        sizes = iter([0 if buffer is None else buffer.size for each in batch.columns for buffer in buffers_of(each)])
        for index, field in enumerate(self.field.children):
            self._copy(self.array.children[index].contents, field, sizes)

    def _copy(self, array: ArrowArray, field: Field, given: Iterator[int]) -> None:
        sizes = [next(given) for _ in range(array.n_buffers - field.format.startswith("v"))]
        if field.format.startswith("v"):
            sizes.append(8 * len(sizes[2:]))
        elif width := offset_width(field):
            # Of the data no more than the last offset says.
            sizes[2] = read(array.buffers[1], width, array.offset + array.length)
        for at, size in enumerate(sizes):
            if array.buffers[at]:
                block = _c.malloc(size)
                ctypes.memmove(block, array.buffers[at], size)
                array.buffers[at] = block
                self._blocks.append(block)
        self.arrays.append((field, array, sizes))
        if field.dictionary is not None:
            self._copy(array.dictionary.contents, field.dictionary, given)
        for index, child in enumerate(field.children):
            self._copy(array.children[index].contents, child, given)

    def change(self, edit: bytes) -> None:
        """Make one change: a null count, a length, a buffer that is missing, or a number in a buffer."""
        which, what, place, *_ = edit
        number = int.from_bytes(edit[3:7], "little", signed=True)
        field, array, sizes = self.arrays[which % len(self.arrays)]
        buffer = what % max(len(sizes), 1)
        if what == 255:
            array.null_count = number
        elif what == 254 and field.format != "+s":
            array.length = min(array.length, number)
        elif what == 253 and sizes:
            array.buffers[place % len(sizes)] = None
        elif sizes and array.buffers[buffer]:
            width = (1, 2, 4, 8)[edit[7] % 4]
            if sizes[buffer] >= width:
                write(array.buffers[buffer], width, place % (sizes[buffer] // width), number)

    def keep_true(self) -> None:
        """Undo what the interface leaves to trust: a block of data that is said to be larger than it is."""
        for field, array, sizes in self.arrays:
            if field.format.startswith("v") and array.buffers[len(sizes) - 1]:
                for block, size in enumerate(sizes[2:-1]):
                    limit(array.buffers[len(sizes) - 1], 8, block, size)
            width = offset_width(field)
            if width and array.buffers[1]:
                for place in range(sizes[1] // width):
                    if place in (array.offset + array.length, sizes[1] // width - 1):
                        limit(array.buffers[1], width, place, sizes[2])

    def free(self) -> None:
        """Give the memory back."""
        for block in self._blocks:
            _c.free(block)


def buffers_of(each: pa.Array) -> list[pa.Buffer | None]:
    return [*each.buffers(), *(each.dictionary.buffers() if pa.types.is_dictionary(each.type) else ())]


def offset_width(field: Field) -> int:
    """Of an array whose offsets point into one block of data, else 0."""
    return OFFSET_WIDTHS.get(field.format, 0) if field.dictionary is None else 0


def read(numbers: int, width: int, index: int) -> int:
    return int.from_bytes(ctypes.string_at(numbers + width * index, width), sys.byteorder, signed=True)


def write(numbers: int, width: int, index: int, number: int) -> None:
    low = number & (1 << 8 * width) - 1
    ctypes.memmove(numbers + width * index, low.to_bytes(width, sys.byteorder), width)


def limit(numbers: int, width: int, index: int, most: int) -> None:
    if read(numbers, width, index) > most:
        write(numbers, width, index, most)


class Call:
    """A bulk call that forgets."""

    def begin_run(self, place: TopicPartition) -> Run:
        """A run of its own for each batch."""
        return Run(self, 0, 0)

    def number_of(self, topic: str) -> int:
        """One number for all."""
        return 0

    def as_bytes(self, what: str, given: object) -> bytes:
        """Columns hold bytes."""
        raise AssertionError(f"{what}: {given!r}")

    def invalid(self, index: int, error: AioprodError) -> None:
        """Rows may fail."""


def arrow(data: bytes) -> None:
    """Send the rows of a batch with changes; what a row is read as is as long as it says."""
    copy = Copy(batches()[data[0] % len(batches()) if data else 0])
    try:
        for at in range(1, min(len(data), 1 + EDIT * EDITS_MAX), EDIT):
            copy.change(data[at : at + EDIT].ljust(EDIT, b"\0"))
        copy.keep_true()
        named = any(child.name == "topic" for child in copy.field.children)
        schema = ArrowSchema(copy.field, None if named else "t")
        append(schema.columns(copy.array), named)
        check(schema.columns(copy.array))
    finally:
        copy.free()


def append(columns: RecordColumns, named: bool) -> None:
    """As `send_arrow` does, from the first row to the last."""
    harness = Harness()
    for name in ("t", "u"):
        harness.lead(dict.fromkeys(range(3), 1), name=name)
    errors: dict[str, AioprodError] = {}
    rows = BulkColumns(Call(), columns, 0, columns.length, 0, errors)
    while not rows.append(harness.accumulator, None if named else harness.accumulator.topic("t", 0.0), 0.0):
        if rows.unknown is not None:
            errors[rows.unknown] = UnknownTopicError("unknown")
    assert rows.at == columns.length


def check(columns: RecordColumns) -> None:
    """As `send_arrow` reads rows for interceptors."""
    for row in range(columns.length):
        for view in (columns.value, columns.key, columns.topic):
            if view is not None:
                check_bytes(view, row)
        with suppress(InvalidRecordError):
            if columns.headers is not None:
                columns.headers.get(row)
        with suppress(InvalidRecordError):
            if columns.timestamp is not None:
                columns.timestamp.find(row)


def check_bytes(view: BytesColumn, row: int) -> None:
    with suppress(InvalidRecordError):
        found = view.find(row)
        read_as = view.get()
        assert found == (read_as is not None)
        assert read_as is None or len(read_as) == view.size


def arrow_seeds() -> Iterator[bytes]:
    """Every batch as it is, and some with one lie."""
    for number in range(len(batches())):
        yield bytes([number])
        yield bytes([number]) + bytes([0, 1, 3]) + (60_000).to_bytes(4, "little") + b"\x02"
