"""Single records: serializers, partitions, timestamps, headers, results, sizes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import MessageSizeTooLargeError, UnknownTopicOrPartitionError
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.structs import RecordMetadata, TopicPartition

from aioprod.errors import InvalidRecordError
from tests.support.aiokafka_pairs.pair import Pair, behaviour


@behaviour()
async def send_returns_a_future_of_the_place(pair: Pair) -> None:
    topic = await pair.topic()
    before = int(time.time() * 1000)
    async with pair.running() as producer:
        future = await producer.send(topic, b"value", key=b"key")
        assert isinstance(future, asyncio.Future)
        stored = await future
        second = await producer.send_and_wait(topic, b"value")
    assert isinstance(stored, RecordMetadata)
    assert stored[:4] == (topic, 0, TopicPartition(topic, 0), 0)
    assert before <= stored.timestamp <= int(time.time() * 1000)
    assert (stored.timestamp_type, second.offset) == (0, 1)


@behaviour(differs="`RecordMetadata.log_start_offset`")
async def the_result_has_the_start_of_the_log(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        stored = await producer.send_and_wait(topic, b"value")
    assert stored.log_start_offset == pair.either(0, None)


@behaviour()
async def arguments_may_be_given_by_position(pair: Pair) -> None:
    topic = await pair.topic(2)
    async with pair.running() as producer:
        await producer.send_and_wait(topic, b"value", b"key", 1, 123_456, [("a", b"1"), ("a", None)])
    (record,) = await pair.records(topic)
    assert (record.partition, record.key, record.value, record.timestamp) == (1, b"key", b"value", 123_456)
    assert tuple(record.headers) == (("a", b"1"), ("a", None))


@behaviour()
async def serializers_make_the_bytes_and_see_none_too(pair: Pair) -> None:
    topic = await pair.topic()
    seen: list[Any] = []

    def serialize(given: Any) -> bytes | None:
        seen.append(given)
        return None if given is None else str(given).encode()

    async with pair.running(key_serializer=serialize, value_serializer=serialize) as producer:
        await producer.send_and_wait(topic, 7)
        await producer.send_and_wait(topic, None, key="k")
    assert [(record.key, record.value) for record in await pair.records(topic)] == [(None, b"7"), (b"k", None)]
    assert seen == [None, 7, "k", None]


@behaviour()
async def what_a_serializer_raises_comes_out_of_send(pair: Pair) -> None:
    topic = await pair.topic()

    def fail(given: Any) -> bytes:
        raise LookupError("no schema")

    async with pair.running(value_serializer=fail) as producer:
        with pytest.raises(LookupError, match="no schema"):
            await producer.send(topic, b"value")
    assert await pair.values(topic) == []


@behaviour()
async def what_is_not_bytes_is_a_type_error(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        for given in ({"value": "text"}, {"value": b"v", "key": "text"}, {"value": 7}):
            with pytest.raises(TypeError):
                await producer.send(topic, **given)
        await producer.send_and_wait(topic, bytearray(b"array"), key=memoryview(b"view"))
    assert await pair.values(topic) == [b"array"]


@behaviour()
async def numbers_and_arrays_of_numpy_are_taken(pair: Pair) -> None:
    topic = await pair.topic(2)
    async with pair.running() as producer:
        place = {"partition": np.int64(1), "timestamp_ms": np.int64(7)}
        stored = await producer.send_and_wait(topic, np.frombuffer(b"array", np.uint8), **place)
    assert (stored.partition, stored.offset) == (1, 0)
    assert [(record.partition, record.timestamp, record.value) for record in await pair.records(topic)] == [
        (1, 7, b"array")
    ]


@behaviour()
async def a_record_needs_a_key_or_a_value(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        with pytest.raises(AssertionError):
            await producer.send(topic)
        await producer.send_and_wait(topic, key=b"deleted")
        await producer.send_and_wait(topic, b"")
    assert await pair.values(topic) == [None, b""]


@behaviour()
async def keys_go_to_the_partition_of_their_murmur2_hash(pair: Pair) -> None:
    topic = await pair.topic(7)
    keys = [b"", b"k", "Grüße".encode(), bytes(range(256)), *(b"customer %d" % number for number in range(200))]
    hashed = {key: DefaultPartitioner()(key, list(range(7)), list(range(7))) for key in keys}
    async with pair.running() as producer:
        futures = {key: await producer.send(topic, b"value", key=key) for key in keys}
        placed = {key: (await future).partition for key, future in futures.items()}
    assert placed == hashed


@behaviour()
async def records_without_key_go_anywhere(pair: Pair) -> None:
    topic = await pair.topic(3)
    async with pair.running() as producer:
        futures = [await producer.send(topic, b"value") for _ in range(100)]
        placed = {(await future).partition for future in futures}
    assert placed == {0, 1, 2}  # One is left out by chance in 10**17 runs.


@behaviour()
async def a_partitioner_gets_the_serialized_key_and_lists_of_partitions(pair: Pair) -> None:
    topic = await pair.topic(3)
    seen: list[Any] = []

    def last(key: bytes | None, everywhere: list[int], available: list[int]) -> int:
        seen.append((key, sorted(everywhere), sorted(available)))
        return max(everywhere)

    async with pair.running(partitioner=last, key_serializer=lambda key: key and key.encode()) as producer:
        assert (await producer.send_and_wait(topic, b"value", key="k")).partition == 2
        assert (await producer.send_and_wait(topic, b"value")).partition == 2
        assert (await producer.send_and_wait(topic, b"value", partition=0)).partition == 0
    assert seen == [(b"k", [0, 1, 2], [0, 1, 2]), (None, [0, 1, 2], [0, 1, 2])]


@behaviour()
async def a_partition_that_does_not_exist_is_an_assertion_error(pair: Pair) -> None:
    topic = await pair.topic(2)
    async with pair.running() as producer:
        for partition in (2, -1):
            with pytest.raises(AssertionError):
                await producer.send(topic, b"value", partition=partition)


@behaviour()
async def a_timestamp_is_an_int_of_milliseconds(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        stored = await producer.send_and_wait(topic, b"value", timestamp_ms=1_700_000_000_000)
        assert (stored.timestamp, stored.timestamp_type) == (1_700_000_000_000, 0)
        with pytest.raises(TypeError):
            await producer.send(topic, b"value", timestamp_ms="now")
        await producer.send_and_wait(topic, b"value", timestamp_ms=1_700_000_000_001.9)
    assert [record.timestamp for record in await pair.records(topic)] == [1_700_000_000_000, 1_700_000_000_001]


@behaviour(on_fakes=False)
async def a_topic_with_append_time_says_so(pair: Pair) -> None:
    topic = await pair.topic(message_timestamp_type="LogAppendTime")
    async with pair.running() as producer:
        stored = await producer.send_and_wait(topic, b"value", timestamp_ms=5)
    (record,) = await pair.records(topic)
    assert (stored.timestamp, stored.timestamp_type) == (record.timestamp, 1)


@behaviour(differs='`timestamp_ms=-1`, Kafka\'s "no timestamp"')
async def minus_one_for_no_timestamp(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        if pair.is_ours:
            with pytest.raises(InvalidRecordError, match="The timestamp -1 is not between 0 and"):
                await producer.send(topic, b"value", timestamp_ms=-1)
        else:
            assert (await producer.send_and_wait(topic, b"value", timestamp_ms=-1)).timestamp == -1
    assert [record.timestamp for record in await pair.records(topic)] == pair.either([-1], [])


@behaviour(differs="timestamps of records that share a batch")
async def records_of_a_batch_have_their_own_timestamps(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(linger_ms=50) as producer:
        futures = [await producer.send(topic, b"value", timestamp_ms=ms) for ms in (1, 2, 3)]
        told = [(await future).timestamp for future in futures]
    assert [record.timestamp for record in await pair.records(topic)] == [1, 2, 3]
    assert told == pair.either([1, 1, 1], [1, 2, 3])


@behaviour()
async def a_header_has_a_str_and_bytes(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running() as producer:
        await producer.send_and_wait(topic, b"value", headers=[("a", b""), ("Grüße", b"\xff")])
        for wrong in ([(b"name", b"value")], [("name", "text")]):
            with pytest.raises((TypeError, AttributeError)):
                await producer.send(topic, b"value", headers=wrong)
    (record,) = await pair.records(topic)
    assert tuple(record.headers) == (("a", b""), ("Grüße", b"\xff"))


@behaviour()
async def with_acks_0_there_is_no_result(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(acks=0) as producer:
        assert await producer.send_and_wait(topic, b"value") is None
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"batch")
        assert await (await producer.send_batch(batch, topic, partition=0)) is None
    async with pair.running() as producer:  # Its answer comes after what was sent before is stored.
        await producer.send_and_wait(topic, b"last")
    assert set(await pair.values(topic)) >= {b"last"}


@behaviour()
async def each_acks_and_idempotence_delivers(pair: Pair) -> None:
    topic = await pair.topic()
    for options in ({"acks": 1}, {"acks": "all"}, {"acks": -1}, {"enable_idempotence": True}):
        async with pair.running(**options) as producer:
            await producer.send_and_wait(topic, repr(options).encode())
    assert len(await pair.values(topic)) == 4


@behaviour()
async def each_codec_delivers(pair: Pair) -> None:
    topic = await pair.topic()
    value = b"ab" * 400
    for codec in ("gzip", "snappy", "lz4", "zstd", None):
        async with pair.running(compression_type=codec, linger_ms=20) as producer:
            for future in [await producer.send(topic, value) for _ in range(5)]:
                await future
    assert await pair.values(topic) == [value] * 25


@behaviour()
async def a_record_over_max_request_size_is_too_large(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(max_request_size=1000) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send(topic, b"x" * 1000)
        await producer.send_and_wait(topic, b"x" * 900)
    assert [len(value or b"") for value in await pair.values(topic)] == [900]


@behaviour()
async def the_size_is_counted_to_the_byte(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(max_request_size=1000) as producer:
        size = 800
        while True:
            try:
                await producer.send_and_wait(topic, b"x" * size, key=b"key", headers=[("name", b"value")])
            except MessageSizeTooLargeError:
                break
            size += 1
    assert size - 1 == 1000 - 61 - 21 - 1 - 3 - 2 - 1 - 1 - 4 - 1 - 5


@behaviour()
async def a_record_that_the_broker_finds_too_large_fails_by_its_future(pair: Pair) -> None:
    topic = await pair.topic(max_message_bytes=1000)
    async with pair.running() as producer:
        future = await producer.send(topic, b"x" * 5000)
        with pytest.raises(MessageSizeTooLargeError):
            await future
    assert await pair.values(topic) == []


@behaviour(differs="an unknown topic")
async def a_topic_that_does_not_exist_fails_in_send(pair: Pair) -> None:
    timeout_s = 1.0
    async with pair.running(request_timeout_ms=pair.either(int(timeout_s * 1000), 40_000)) as producer:
        start = time.monotonic()
        with pytest.raises(UnknownTopicOrPartitionError):
            await producer.send("nobody-made-it", b"value")
        assert time.monotonic() - start < 30  # aiokafka would take these 40 s.
        with pytest.raises(UnknownTopicOrPartitionError):
            await producer.partitions_for("nobody-made-it")


@behaviour()
async def partitions_for_is_a_set_of_indexes(pair: Pair) -> None:
    topic = await pair.topic(3)
    async with pair.running() as producer:
        assert await producer.partitions_for(topic) == {0, 1, 2}


@behaviour()
async def records_of_a_partition_keep_their_order(pair: Pair) -> None:
    topic = await pair.topic()
    values = [b"%d" % number for number in range(3000)]
    async with pair.running(max_batch_size=1000) as producer:
        futures = [await producer.send(topic, value) for value in values]
        offsets = [(await future).offset for future in futures]
    assert offsets == list(range(3000))
    assert await pair.values(topic) == values


@behaviour()
async def tasks_that_send_at_once_lose_nothing(pair: Pair) -> None:
    topic = await pair.topic(3)
    async with pair.running(max_batch_size=500) as producer:
        await asyncio.gather(*(producer.send_and_wait(topic, b"%d" % number) for number in range(500)))
    assert sorted(await pair.values(topic), key=lambda value: int(value or 0)) == [b"%d" % n for n in range(500)]
