"""Arrow data of every layout, written to a real broker and read by librdkafka: rows, partitions, and `offsets`."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from aioprod import Producer
from aioprod.errors import InvalidRecordError, RecordTooLargeError
from aioprod.routing.hashes import murmur2_partition
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.reading import CREATE_TIME, Stored, stored
from tests.support.arrow import BYTES_TYPES, OnlyStream, column

ROWS = 20_000
PARTITIONS = 4
START_MS = 1_700_000_000_000
NAMES = ("", "trace", "Größe", "x" * 100)
HEADERS = {
    "map": pa.map_(pa.string(), pa.binary()),
    "list": pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()})),
}


def random_rows(source: random.Random) -> list[dict[str, Any]]:
    """Rows with nulls, empty values, large ones and headers."""
    return [
        {
            "value": None
            if source.random() < 0.05
            else source.randbytes(source.choice((0, 1, 12, 13, 100, 127, 128, 20_000 if number % 500 == 0 else 50))),
            "key": source.randbytes(source.randint(0, 20)),
            "headers": None
            if source.random() < 0.5
            else [
                (source.choice(NAMES), None if source.random() < 0.2 else source.randbytes(source.randint(0, 20)))
                for _ in range(source.choice((0, 1, 2, 9)))
            ],
            "timestamp": START_MS + source.randint(0, 10**9),
        }
        for number in range(ROWS)
    ]


def table_of(rows: list[dict[str, Any]], kind: str, headers: str) -> pa.Table:
    """The rows as a table of several chunks, each a slice of a larger array."""
    pairs: list[Any] = [row["headers"] for row in rows]
    if headers == "list":
        pairs = [row and [{"name": name, "value": value} for name, value in row] for row in pairs]
    batch = pa.record_batch(
        {
            "value": column([row["value"] for row in rows], BYTES_TYPES[kind]),
            "key": column([row["key"] for row in rows], BYTES_TYPES[kind]),
            "headers": pa.array(pairs, HEADERS[headers]),
            "timestamp": pa.array([row["timestamp"] for row in rows], pa.timestamp("ms")),
        }
    )
    cuts = [0, 1, 1, 7000, 7001, ROWS]
    return pa.Table.from_batches([batch.slice(a, b - a) for a, b in pairwise(cuts)])


@pytest.mark.parametrize(
    ("kind", "headers", "codec"),
    [
        ("binary", "map", "none"),
        ("large_binary", "list", "lz4"),
        ("binary_view", "map", "none"),
        ("dictionary of large", "list", "zstd"),
    ],
)
async def test_librdkafka_reads_the_rows(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures, kind: str, headers: str, codec: str
) -> None:
    topic = await make_topic(kafka_cluster, PARTITIONS)
    rows = random_rows(random.Random(kind))
    settings = {"batch.size": 131_072, "compression.type": codec}
    async with Producer(kafka_cluster.bootstrap_servers, config=settings) as producer:
        result = await producer.send_arrow(OnlyStream(table_of(rows, kind, headers)), topic=topic)
        assert producer.buffered == (0, 0)
    expected: list[Stored] = []
    next_offset = [0] * PARTITIONS
    for row in rows:
        partition = murmur2_partition(row["key"], PARTITIONS)
        offset = next_offset[partition]
        next_offset[partition] += 1
        pairs = tuple(row["headers"] or ())
        expected.append(Stored(partition, offset, row["key"], row["value"], pairs, row["timestamp"], CREATE_TIME))
    assert (result.count, result.failures) == (ROWS, ())
    assert {place.partition: spans for place, spans in result.offsets.items()} == {
        partition: (range(end),) for partition, end in enumerate(next_offset)
    }
    read = await stored(kafka_cluster, topic)
    assert len(read) == ROWS
    # Not one comparison of the lists: its message would take minutes.
    differing = [pair for pair in zip(read, sorted(expected), strict=True) if pair[0] != pair[1]]
    assert not differing, f"{len(differing)} differ, the first: {differing[0]!r:.1000}"
    figures.add(f"rows of Arrow data read back equal, {kind}", ROWS)


async def test_topics_and_partitions_from_columns(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topics = [await make_topic(kafka_cluster, PARTITIONS) for _ in range(3)]
    names = [topics[number % 3] for number in range(900)]
    places = [None if number % 5 == 0 else number % PARTITIONS for number in range(900)]
    places[7] = PARTITIONS
    values: list[bytes] = [b"%d" % number for number in range(900)]
    values[8] = b"x" * 2_000_000
    batch = pa.record_batch(
        {
            "value": pa.array(values, pa.large_binary()),
            "topic": pa.array(names).dictionary_encode(),
            "partition": pa.array(places, pa.int8()),
        }
    )
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        result = await producer.send_arrow(batch)
    assert [(index, type(error)) for index, error in result.failures] == [
        (7, InvalidRecordError),
        (8, RecordTooLargeError),
    ]
    for topic in topics:
        read = await stored(kafka_cluster, topic)
        sent = {number for number in range(900) if names[number] == topic and number not in (7, 8)}
        assert {int(record.value or b"") for record in read} == sent
        assert all(places[int(record.value or b"")] in (None, record.partition) for record in read)
        spans = {place.partition: offsets for place, offsets in result.offsets.items() if place.topic == topic}
        assert sum(len(span) for offsets in spans.values() for span in offsets) == len(sent)
        for partition in range(PARTITIONS):
            order = [int(record.value or b"") for record in read if record.partition == partition]
            assert order == sorted(order)
