"""Records as the bytes of groups."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod import ProducerRecord
from aioprod.errors import CorruptRecordError
from aioprod.interceptors import Interceptors
from aioprod.producer.preparation import Preparation
from aioprod.relay.columns import ColumnRows
from aioprod.spool.entries import ENTRY_OVERHEAD, EntryReader
from aioprod.spool.spool import encoded

SEED = 12345
NOW_MS = 1_700_000_000_000

BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.none() | st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), BYTES), max_size=4)
RECORDS = st.builds(
    ProducerRecord,
    st.text("abcdefghijklmnopqrstuvwxyzABC0123456789._-", min_size=3, max_size=60),
    BYTES,
    key=BYTES,
    partition=st.none() | st.integers(0, 2**31 - 1),
    headers=HEADERS,
    timestamp=st.none() | st.integers(0, 2**53),
)


def written(record: ProducerRecord, seed: int = SEED) -> bytes:
    return bytes(encoded(Preparation(Interceptors(), None, None).prepare(record), NOW_MS, seed))


def read(data: bytes, count: int, seed: int = SEED) -> list[ProducerRecord]:
    rows = ColumnRows()
    assert EntryReader(seed).read(data, 0, len(data), count, rows) == len(data)
    rows.numbers += range(count)
    rows.names += [b""] * count
    return [record for record, _ in rows]


def parts(record: ProducerRecord) -> tuple[object, ...]:
    stamp = NOW_MS if record.timestamp is None else record.timestamp
    return record.topic, record.value, record.key, record.partition, list(record.headers or ()), stamp


@given(st.lists(RECORDS, max_size=5))
def test_records_are_read_as_they_were_written(records: list[ProducerRecord]) -> None:
    data = b"".join(map(written, records))
    assert list(map(parts, read(data, len(records)))) == list(map(parts, records))


def test_what_is_nothing_and_what_is_empty() -> None:
    for value in (None, b""):
        for key in (None, b""):
            (found,) = read(written(ProducerRecord("t", value, key=key)), 1)
            assert (found.value, found.key, found.partition, found.headers) == (value, key, None, None)


def test_the_size_of_a_record() -> None:
    assert len(written(ProducerRecord("topic", b"value", key=b"key"))) == ENTRY_OVERHEAD + len("topicvaluekey") + 1


def test_a_topic_is_one_object() -> None:
    found = read(written(ProducerRecord("a.topic", b"")) * 2, 2)
    assert found[0].topic is found[1].topic


def test_each_bit_of_a_record_counts() -> None:
    data = written(ProducerRecord("t", b"value", key=b"key", headers=[("h", b"1")])) * 2
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecordError):
            read(bytes(changed), 2)


def test_records_that_are_cut_or_too_many_or_of_another_spool() -> None:
    data = written(ProducerRecord("t", b"value")) * 2
    for size in range(len(data)):
        with pytest.raises(CorruptRecordError):
            read(data[:size], 2)
    with pytest.raises(CorruptRecordError, match="the checksum of record 2 of 3 is wrong"):
        read(data, 3)
    with pytest.raises(CorruptRecordError, match="the checksum of record 0 of 2 is wrong"):
        read(data, 2, SEED + 1)


def test_a_part_of_the_records_is_read() -> None:
    data = written(ProducerRecord("t", b"value")) * 3
    rows = ColumnRows()
    reader = EntryReader(SEED)
    begin = reader.read(data, 0, len(data), 2, rows)
    assert begin == 2 * len(data) // 3
    assert reader.read(data, begin, len(data), 1, rows) == len(data)
    assert rows.values == [b"value"] * 3


def test_what_was_added_of_damaged_records_is_dropped() -> None:
    data = written(ProducerRecord("t", b"value")) * 2
    rows = ColumnRows()
    with pytest.raises(CorruptRecordError):
        EntryReader(SEED).read(data[:-1], 0, len(data) - 1, 2, rows)
    assert len(rows) == 1
    rows.cut(0)
    assert len(rows) == 0


@given(st.binary(max_size=200), st.integers(1, 2**32 - 1))
def test_garbage_is_no_record(data: bytes, count: int) -> None:
    with pytest.raises(CorruptRecordError):
        read(data, count)


def test_a_record_that_lies_about_its_length() -> None:
    for length in (0, 2**31, 2**32 - 1):
        with pytest.raises(CorruptRecordError):
            read(struct.pack(">II", length, 0) + bytes(100), 1)
