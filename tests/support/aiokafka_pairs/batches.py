"""Batches that the caller fills."""

from __future__ import annotations

import pytest
from aiokafka.structs import TopicPartition

from tests.support.aiokafka_pairs.pair import Pair, behaviour


@behaviour()
async def append_returns_the_place_in_the_batch(pair: Pair) -> None:
    async with pair.running() as producer:
        batch = producer.create_batch()
        assert (batch.record_count(), batch.size(), batch.closed()) == (0, 61, False)
        first = batch.append(timestamp=1000, key=b"key", value=b"value", headers=[("a", b"1")])
        second = batch.append(timestamp=None, key=None, value=b"value")
    assert (first.offset, first.size, first.timestamp, first.crc) == (0, 19, 1000, None)
    assert second.offset == 1
    assert second.timestamp > 1_600_000_000_000
    assert batch.record_count() == 2
    assert batch.size() == 61 + first.size + second.size


@behaviour()
async def a_batch_is_stored_as_it_was_filled(pair: Pair) -> None:
    topic = await pair.topic(2)
    async with pair.running() as producer:
        await producer.send_and_wait(topic, b"before", partition=1)
        batch = producer.create_batch()
        batch.append(timestamp=5, key=b"k", value=b"one", headers=[("a", b"1")])
        batch.append(timestamp=7, key=None, value=b"two")
        batch.append(timestamp=6, key=b"deleted", value=None)
        stored = await (await producer.send_batch(batch, topic, partition=1))
    assert stored[:4] == (topic, 1, TopicPartition(topic, 1), 1)
    assert (stored.timestamp, stored.timestamp_type) == (-1, 0)
    records = (await pair.records(topic))[1:]
    assert [(r.key, r.value, r.timestamp) for r in records] == [
        (b"k", b"one", 5),
        (None, b"two", 7),
        (b"deleted", None, 6),
    ]
    assert tuple(records[0].headers) == (("a", b"1"),)


@behaviour()
async def a_full_batch_takes_no_more_and_closes(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(max_batch_size=1000) as producer:
        batch = producer.create_batch()
        count = 0
        while batch.append(timestamp=5, key=None, value=b"x" * 50) is not None:
            count += 1
        assert (count, batch.record_count(), batch.closed()) == (16, 16, True)
        assert batch.append(timestamp=5, key=None, value=b"") is None
        assert batch.size() == 61 + 16 * 57
        await (await producer.send_batch(batch, topic, partition=0))
    assert len(await pair.values(topic)) == 16


@behaviour()
async def the_first_record_always_fits(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(max_batch_size=1000) as producer:
        batch = producer.create_batch()
        assert batch.append(timestamp=5, key=None, value=b"x" * 5000) is not None
        assert batch.append(timestamp=5, key=None, value=b"") is None
        await (await producer.send_batch(batch, topic, partition=0))
    assert [len(value or b"") for value in await pair.values(topic)] == [5000]


@behaviour()
async def a_closed_batch_takes_no_more(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        batch = producer.create_batch()
        batch.append(timestamp=5, key=None, value=b"one")
        batch.close()
        batch.close()
        assert batch.closed()
        assert batch.append(timestamp=5, key=None, value=b"two") is None
        await (await producer.send_batch(batch, topic, partition=0))
    assert await pair.values(topic) == [b"one"]


@behaviour()
async def batches_and_records_keep_the_order_of_the_calls(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(linger_ms=20) as producer:
        futures = [await producer.send(topic, b"a")]
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"b")
        batch.append(timestamp=None, key=None, value=b"c")
        batch.close()
        futures += [await producer.send_batch(batch, topic, partition=0), await producer.send(topic, b"d")]
        offsets = [(await future).offset for future in futures]
    assert offsets == [0, 1, 3]
    assert await pair.values(topic) == [b"a", b"b", b"c", b"d"]


@behaviour()
async def serializers_run_in_append(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(value_serializer=lambda value: value.encode(), key_serializer=lambda key: key) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=b"k", value="text")
        await (await producer.send_batch(batch, topic, partition=0))
    assert await pair.values(topic) == [b"text"]


@behaviour()
async def a_batch_takes_bytes_only(pair: Pair) -> None:
    async with pair.running() as producer:
        batch = producer.create_batch()
        for wrong in ({"key": "text", "value": b""}, {"key": b"", "value": 7}):
            with pytest.raises(TypeError):
                batch.append(timestamp=None, **wrong)
        with pytest.raises(TypeError):
            batch.append(timestamp="now", key=None, value=b"")
        assert batch.record_count() == 0


@behaviour()
async def a_batch_goes_to_a_partition_that_exists(pair: Pair) -> None:
    topic = await pair.topic(2)
    async with pair.running() as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"one")
        with pytest.raises(AssertionError):
            await producer.send_batch(batch, topic, partition=2)
        stored = await (await producer.send_batch(batch, topic, partition=None))
    assert stored.partition in {0, 1}
    assert await pair.values(topic) == [b"one"]


@behaviour()
async def an_empty_batch_stores_nothing(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        assert await (await producer.send_batch(producer.create_batch(), topic, partition=0)) is None
    assert await pair.values(topic) == []


@behaviour()
async def each_codec_compresses_a_batch(pair: Pair) -> None:
    topic = await pair.topic()
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        async with pair.running(compression_type=codec) as producer:
            batch = producer.create_batch()
            for _ in range(20):
                batch.append(timestamp=None, key=None, value=b"ab" * 100)
            await (await producer.send_batch(batch, topic, partition=0))
    assert await pair.values(topic) == [b"ab" * 100] * 80


@behaviour(differs="a batch after `send_batch()`")
async def a_batch_that_was_sent_takes_more(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(linger_ms=200) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"one")
        future = await producer.send_batch(batch, topic, partition=0)
        later = batch.append(timestamp=None, key=None, value=b"two")
        await future
    assert (later is None) is pair.either(False, True)
    assert await pair.values(topic) == pair.either([b"one", b"two"], [b"one"])
