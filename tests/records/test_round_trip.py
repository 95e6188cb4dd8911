"""What the builder writes, the parser reads: any records, every codec and level."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.compression import Compression
from aioprod.records.headers import encode_headers
from aioprod.records.layout import PREFIX
from aioprod.records.parser import ParsedBatch, ParsedRecord, parse_batches

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

NOW = 1_700_000_000_000
INT64_MAX = (1 << 63) - 1

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, INT64_MAX) | st.integers(NOW, NOW + 1000),
        st.none() | st.binary(max_size=100),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=3),
    ),
    min_size=1,
    max_size=12,
)


def build_and_parse(records: list[Record], codec: Compression, level: int | None = None) -> ParsedBatch:
    builder = RecordBatchBuilder(bytearray(PREFIX + 100_000))
    for timestamp, key, value, headers in records:
        assert builder.append(timestamp, key, value, encode_headers(headers))
    builder.seal(codec=codec, level=level)
    (batch,) = parse_batches(builder.wire(0, flexible=False)[8:])
    return batch


@given(RECORDS, st.sampled_from(list(Compression)))
@settings(max_examples=80)
def test_what_was_built_is_parsed(records: list[Record], codec: Compression) -> None:
    batch = build_and_parse(records, codec)
    assert batch.count == len(records)
    assert batch.last_offset_delta == batch.next_offset - 1 == len(records) - 1
    assert batch.base_timestamp == records[0][0]
    assert batch.max_timestamp == max(timestamp for timestamp, *_ in records)
    assert list(batch.records()) == [
        ParsedRecord(offset, timestamp, key, value, tuple(headers))
        for offset, (timestamp, key, value, headers) in enumerate(records)
    ]


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        *((Compression.GZIP, level) for level in (-1, 1, 9)),
        (Compression.SNAPPY, None),
        *((Compression.LZ4, level) for level in (1, 9, 17)),
        *((Compression.ZSTD, level) for level in (-131072, -5, 3, 22)),
    ],
)
def test_levels(codec: Compression, level: int | None) -> None:
    records: list[Record] = [(NOW, b"%d" % (index % 7), b"value" * 20, []) for index in range(300)]
    batch = build_and_parse(records, codec, level)
    # zstd's extreme negative level stores what it gets, so that the batch goes out uncompressed
    assert batch.codec == (Compression.NONE if level == -131072 else codec)
    assert [(record.key, record.value) for record in batch.records()] == [(r[1], r[2]) for r in records]
