"""Records as objects for readers: most are read in one step, and must be those of the careful way."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import CorruptRecordError
from aioprod.records import Compression, ParsedBatch, parse_batches
from aioprod.records.parser import RecordReader
from aioprod.types import ConsumedRecord
from tests.records.test_table import ALL, RECORDS, Rows, built, expected
from tests.support.stored_batches import parsed


def consumed(batch: ParsedBatch, start: int, end: int) -> list[tuple[object, ...]]:
    reader = RecordReader(batch)
    found: list[ConsumedRecord] = []
    while reader.consume(found, "t", 3, start, end):
        pass
    assert all((record.topic, record.partition) == ("t", 3) for record in found)
    return [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in found]


@given(RECORDS, st.sampled_from(list(Compression)), st.integers(0, 30), st.integers(0, 40))
@settings(max_examples=150)
def test_the_same_as_record_by_record(rows: Rows, codec: Compression, start: int, end: int) -> None:
    batch = parsed(built(rows, codec))
    assert consumed(batch, start, end) == expected(batch, start, end)


@given(RECORDS, st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=200)
def test_damaged_batches_fail_alike(rows: Rows, damage: list[tuple[int, int]]) -> None:
    data = bytearray(built(rows))
    for at, byte in damage:
        data[61 + at % (len(data) - 61)] = byte
    (batch,) = parse_batches(bytes(data), verify_crc=False)
    try:
        wanted: object = expected(batch, 0, ALL)
    except CorruptRecordError as error:
        wanted = str(error)
    try:
        found: object = consumed(batch, 0, ALL)
    except CorruptRecordError as error:
        found = str(error)
    assert found == wanted


# --- the record itself


RECORD = ConsumedRecord("t", 1, 2, b"k", b"v", (("h", None),), 3)


def test_a_record_is_compared_and_hashed_by_its_fields() -> None:
    assert ConsumedRecord("t", 1, 2, b"k", b"v", (("h", None),), 3) == RECORD
    assert hash(ConsumedRecord("t", 1, 2, b"k", b"v", (("h", None),), 3)) == hash(RECORD)
    assert ConsumedRecord("t", 1, 2, b"k", b"v", (), 3) != RECORD
    assert RECORD != ("t", 1, 2, b"k", b"v", (("h", None),), 3)


def test_a_record_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(RECORD)) == RECORD


def test_a_record_can_be_matched() -> None:
    match RECORD:
        case ConsumedRecord(topic, partition, offset, key, value, headers, timestamp):
            assert (topic, partition, offset, key, value, headers, timestamp) == (
                "t",
                1,
                2,
                b"k",
                b"v",
                (("h", None),),
                3,
            )


def test_a_record_is_made_by_names() -> None:
    assert (
        ConsumedRecord(topic="t", partition=1, offset=2, key=b"k", value=b"v", headers=(("h", None),), timestamp=3)
        == RECORD
    )


def test_a_record_takes_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        RECORD.note = 1  # type: ignore[attr-defined]


def test_a_record_with_other_contents_keeps_its_place() -> None:
    assert RECORD.replaced(1, 2) == ConsumedRecord("t", 1, 2, 1, 2, (("h", None),), 3)
