"""The hand-laid Produce request is, byte for byte, what the declaration encodes to."""

from __future__ import annotations

from uuid import UUID

import pytest

from aioprod.messages import ProduceRequest
from aioprod.messages.produce import PartitionProduceData, TopicProduceData
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.produce import FIRST_WITH_TOPIC_IDS, HEADS_MAX, ProduceEncoder
from aioprod.records.compression import Compression
from aioprod.wire.codec import encode
from tests.support.accumulators import Harness

TOPIC_IDS = {"t": UUID(int=1), "other": UUID(int=2)}


def sealed_batches(codec: Compression) -> list[Batch]:
    harness = Harness()
    for name in TOPIC_IDS:
        harness.lead({0: 1, 1: 1}, name=name)
        harness.accumulator.topic(name, 0.0).topic_id = TOPIC_IDS[name].bytes
    for name, partition in (("t", 0), ("other", 1), ("t", 1)):
        harness.append(b"value " * 50, name=name, partition=partition)
        harness.append(None, name=name, partition=partition)
    batches = harness.drain()
    for batch in batches:
        batch.builder.seal(codec=codec, level=None)
    return batches


def records_of(batch: Batch) -> bytes:
    return bytes(batch.builder.wire(0, False)[8:])


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_same_bytes_as_the_declaration(version: int, codec: Compression) -> None:
    batches = sealed_batches(codec)
    data = {
        name: TopicProduceData(
            **({"topic_id": TOPIC_IDS[name]} if version >= FIRST_WITH_TOPIC_IDS else {"name": name}),
            partition_data=tuple(
                PartitionProduceData(index=batch.partition.index, records=records_of(batch))
                for batch in batches
                if batch.partition.topic.name == name
            ),
        )
        for name in TOPIC_IDS
    }
    expected = encode(
        ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=tuple(data.values())), version
    )
    parts, size = ProduceEncoder(-1, 30_000).encode(version, batches)
    assert b"".join(parts) == expected
    assert size == len(expected)


def test_requests_of_one_batch_are_those_of_the_declaration() -> None:
    encoder = ProduceEncoder(1, 1000, b"orders")
    batches = sealed_batches(Compression.NONE)
    for version in (13, 12, 9, 8, 13):
        for batch in [*batches, batches[0]]:
            name = batch.partition.topic.name
            data = TopicProduceData(
                **({"topic_id": TOPIC_IDS[name]} if version >= FIRST_WITH_TOPIC_IDS else {"name": name}),
                partition_data=(PartitionProduceData(index=batch.partition.index, records=records_of(batch)),),
            )
            request = ProduceRequest(transactional_id="orders", acks=1, timeout_ms=1000, topic_data=(data,))
            parts, size = encoder.encode(version, [batch])
            assert b"".join(parts) == encode(request, version)
            assert size == len(encode(request, version))


def test_heads_of_many_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(buffer_memory=2**22)
    encoder = ProduceEncoder(-1, 30_000)
    names = [f"t{number}" for number in range(HEADS_MAX + 2)]
    for name in names:
        harness.lead({0: 1}, name=name)
        harness.append(b"v", name=name, partition=0)
    for batch in harness.drain(size_max=2**22):
        batch.builder.seal(codec=Compression.NONE, level=None)
        parts, _ = encoder.encode(12, [batch])
        assert batch.partition.topic.name.encode() in parts[0]


def test_a_batch_is_one_buffer_that_is_not_copied() -> None:
    batches = sealed_batches(Compression.NONE)
    parts, _ = ProduceEncoder(-1, 30_000).encode(9, batches)
    views = [part for part in parts if isinstance(part, memoryview)]
    assert [view.obj for view in views] == [
        batches[0].builder.buffer,
        batches[2].builder.buffer,
        batches[1].builder.buffer,
    ]
