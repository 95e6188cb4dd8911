"""Another implementation, aiokafka's, reads what we write and writes what we read."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.compression import Compression
from aioprod.records.headers import encode_headers
from aioprod.records.layout import PREFIX
from aioprod.records.parser import ParsedRecord, parse_batches

NOW = 1_700_000_000_000

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

# aiokafka refuses a record whose key and value are both null.
RECORDS = st.lists(
    st.tuples(
        st.integers(NOW - 100_000, NOW + 100_000),
        st.none() | st.binary(max_size=70),
        st.binary(max_size=300),
        st.lists(st.tuples(st.text("abcdé", max_size=70), st.none() | st.binary(max_size=20)), max_size=2),
    ),
    min_size=1,
    max_size=80,
)
LARGE: list[Record] = [
    (NOW + index, b"key-%d" % index, (b'{"id":%d,' % index) * 20, [("trace", b"%d" % index)]) for index in range(900)
]


def build_ours(records: list[Record], codec: Compression, level: int | None = None) -> bytes:
    builder = RecordBatchBuilder(bytearray(PREFIX + 400_000))
    for timestamp, key, value, headers in records:
        assert builder.append(timestamp, key, value, encode_headers(headers))
    builder.seal(codec=codec, level=level, producer_id=5, producer_epoch=6, base_sequence=7, transactional=True)
    return bytes(builder.wire(0, flexible=False)[8:])


def build_theirs(records: list[Record], codec: Compression) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        batch_size=1_000_000,
    )
    for offset, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def read_theirs(data: bytes) -> Any:
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    return batch


def check_both_ways(records: list[Record], codec: Compression, level: int | None = None) -> None:
    expected = [ParsedRecord(offset, *record[:3], tuple(record[3])) for offset, record in enumerate(records)]

    theirs = read_theirs(build_ours(records, codec, level))
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (5, 6, 7)
    assert theirs.is_transactional
    assert theirs.max_timestamp == max(record[0] for record in records)
    assert [
        ParsedRecord(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in theirs
    ] == expected

    (ours,) = parse_batches(build_theirs(records, codec))
    assert (ours.producer_id, ours.producer_epoch, ours.base_sequence) == (5, 6, 7)
    assert ours.is_transactional
    assert list(ours.records()) == expected


@given(RECORDS, st.sampled_from(list(Compression)))
@settings(max_examples=40)
def test_both_ways(records: list[Record], codec: Compression) -> None:
    check_both_ways(records, codec)


@pytest.mark.parametrize("codec", list(Compression))
def test_large_batches_both_ways(codec: Compression) -> None:
    check_both_ways(LARGE, codec)


@pytest.mark.parametrize(
    ("codec", "level"), [(Compression.GZIP, 1), (Compression.LZ4, 1), (Compression.LZ4, 17), (Compression.ZSTD, -7)]
)
def test_levels_both_ways(codec: Compression, level: int) -> None:
    check_both_ways(LARGE, codec, level)


@given(RECORDS)
@settings(max_examples=40)
def test_uncompressed_bytes_are_the_same(records: list[Record]) -> None:
    assert build_ours(records, Compression.NONE) == build_theirs(records, Compression.NONE)
