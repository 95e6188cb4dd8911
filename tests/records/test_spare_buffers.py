"""Buffers are used again once nothing else refers to them: what a user has is never written to."""

from __future__ import annotations

from aioprod.records.parser import parse_batches
from aioprod.records.spare_buffers import SpareBuffers
from aioprod.records.table import RecordTable, TableReader
from tests.support.stored_batches import stored_batch


def fresh(spares: SpareBuffers, size: int) -> bytearray:
    return spares.longer(bytearray(), size)


def test_a_buffer_to_which_nothing_refers_is_used_again() -> None:
    spares = SpareBuffers(1000)
    buffer = fresh(spares, 100)
    at = id(buffer)
    spares.gave(buffer)
    view = memoryview(buffer)[:10]
    del buffer
    assert id(fresh(spares, 100)) != at
    del view
    assert id(fresh(spares, 100)) == at


def test_a_buffer_is_not_given_twice() -> None:
    spares = SpareBuffers(1000)
    spares.gave(bytearray(100))
    first, second = fresh(spares, 100), fresh(spares, 100)
    assert first is not second


def test_a_buffer_that_is_too_small_or_too_large_is_left() -> None:
    spares = SpareBuffers(1000)
    spares.gave(bytearray(100))
    assert [len(fresh(spares, size)) for size in (101, 49, 50)] == [101, 49, 100]


def test_only_the_last_buffers_are_kept() -> None:
    spares = SpareBuffers(1000)
    for size in range(100, 105):
        spares.gave(bytearray(size))
    assert [len(fresh(spares, 60)) for _ in range(5)] == [101, 102, 103, 104, 60]


def test_the_buffer_of_a_large_record_is_not_kept() -> None:
    spares = SpareBuffers(1000)
    spares.gave(bytearray(1001))
    assert len(fresh(spares, 600)) == 600
    spares.gave(bytearray(1000))
    assert len(fresh(spares, 600)) == 1000


def test_headers_leave_the_spare_buffers_to_keys_and_values() -> None:
    table = RecordTable(rows_max=100, size_max=4096, headers=True)
    places = []
    for _ in range(12):
        (batch,) = parse_batches(stored_batch([b"v" * 150] * 5, key=b"k" * 300, headers=[("a", b"b")]))
        TableReader(batch, 0, 5).read(table)
        columns = table.take()
        places.append((id(columns.keys.data.obj), id(columns.values.data.obj)))
    # From when on the table knows how much memory such records take.
    assert places[6::2] == [places[6]] * 3
    assert places[7::2] == [places[7]] * 3


def test_a_longer_buffer_begins_with_the_same_bytes() -> None:
    spares = SpareBuffers(1000)
    spares.gave(bytearray(200))
    longer = spares.longer(bytearray(b"abc"), 100)
    assert len(longer) == 100
    assert longer[:3] == b"abc"


def test_columns_that_are_held_keep_their_bytes() -> None:
    table = RecordTable(rows_max=100, size_max=1000)
    held = []
    for number in range(12):
        values = [b"%d-%d" % (number, one) * 20 for one in range(5)]
        (batch,) = parse_batches(stored_batch(values))
        assert TableReader(batch, 0, 5).read(table)
        found = table.take().values.data
        if number % 3:
            held.append((found, b"".join(values)))
        else:
            del found
    assert all(found == expected for found, expected in held)


def test_columns_that_are_dropped_give_their_memory_to_the_next() -> None:
    table = RecordTable(rows_max=100, size_max=1000)
    places = []
    for _ in range(6):
        (batch,) = parse_batches(stored_batch([b"v" * 150] * 5))
        TableReader(batch, 0, 5).read(table)
        columns = table.take()
        places.append(id(columns.values.data.obj))
    assert places[0::2] == [places[0]] * 3
    assert places[1::2] == [places[1]] * 3
