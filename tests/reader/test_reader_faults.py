from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from aioprod.errors import (
    BrokerError,
    CorruptRecordError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
    UnknownTopicError,
)
from aioprod.messages import FetchRequest, FetchResponse, ListOffsetsRequest
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.sessions import collect, new_reader, offsets_of
from tests.support.stored_batches import fill, store, stored_batch

TOPIC = "orders"


async def test_a_leader_that_moves_and_a_connection_that_breaks() -> None:
    async with FakeCluster(3) as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        for partition in brokers.create_topic(TOPIC, 6).partitions:
            fill(partition, 20)
        brokers.fault(FetchRequest, node=1, drop="after", times=2)
        found = []
        async with aclosing(reader.read(TOPIC)) as records:
            for index, leader in [(0, 2), (1, 3), (0, 1), (5, 1), (2, 1)]:
                found += [await anext(records) for _ in range(10)]
                brokers.state.move_leader(TopicPartition(TOPIC, index), leader)
            found += [record async for record in records]
        for index in range(6):
            assert offsets_of(found, index) == list(range(20))


async def test_a_broker_that_dies_and_restarts() -> None:
    async with FakeCluster() as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        fill(brokers.create_topic(TOPIC).partitions[0], 20)
        async with aclosing(reader.read(TOPIC)) as records:
            found = [await anext(records) for _ in range(5)]
            await brokers[1].kill()
            rest = asyncio.ensure_future(collect(records))
            await asyncio.sleep(0.02)
            await brokers[1].start()
            found += await rest
        assert offsets_of(found) == list(range(20))


async def test_a_broker_that_stays_down() -> None:
    async with FakeCluster() as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        fill(brokers.create_topic(TOPIC).partitions[0], 20)
        async with aclosing(reader.read(TOPIC)) as records:
            await anext(records)
            await brokers[1].kill(stay_in_metadata=True)
            reader._session.timeout_s = 0.05
            with pytest.raises(RequestTimedOutError, match=r"Topic 'orders' could not be read within .* orders-0: "):
                await collect(records)


async def test_a_broker_without_records_below_its_high_watermark() -> None:
    def nothing(answer: FetchResponse) -> FetchResponse:
        (topic,) = answer.responses
        rows = tuple(replace(row, records=None, high_watermark=1) for row in topic.partitions)
        return replace(answer, responses=(replace(topic, partitions=rows),))

    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        fill(brokers.create_topic(TOPIC).partitions[0], 2)
        brokers.fault(FetchRequest, times=2, edit=nothing)
        assert offsets_of(await collect(reader.read(TOPIC))) == [0, 1]
        brokers.fault(FetchRequest, times=None, edit=nothing)
        records = reader.read(TOPIC, start={0: 1})
        reader._session.timeout_s = 2.0
        with pytest.raises(RequestTimedOutError, match="its leader has nothing from offset 1 to 2, with a"):
            await collect(records)


@pytest.mark.parametrize(("offset", "says_why"), [(2, True), (8, False)])
async def test_an_offset_that_is_not_in_the_log(offset: int, says_why: bool) -> None:
    def log_from_5(answer: Any) -> Any:
        rows = tuple(replace(row, offset=5) for row in answer.topics[0].partitions)
        return replace(answer, topics=(replace(answer.topics[0], partitions=rows),))

    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        fill(brokers.create_topic(TOPIC, 2).partitions[1], 10)
        brokers.fault(FetchRequest, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        async with aclosing(reader.read(TOPIC, start={1: offset})) as records:
            pending = asyncio.ensure_future(anext(records))
            while not brokers.seen_of(FetchRequest):
                await asyncio.sleep(0)
            brokers.fault(ListOffsetsRequest, edit=log_from_5)
            text = f"Partition 1 of topic 'orders' can't be read from offset {offset} on: its log goes from 5 to 10 now"
            with pytest.raises(BrokerError, match=text) as failure:
                await pending
        assert failure.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (failure.value.hint is not None) == says_why


async def test_a_topic_that_is_replaced_or_deleted() -> None:
    async with FakeCluster() as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        fill(brokers.create_topic(TOPIC).partitions[0], 5)
        records = reader.read(TOPIC)
        await anext(records)
        fill(brokers.recreate_topic(TOPIC).partitions[0], 5)
        with pytest.raises(BrokerError, match="deleted and created again"):
            await collect(records)
        records = reader.read(TOPIC)
        await anext(records)
        del brokers.state.topics[TOPIC]
        with pytest.raises(UnknownTopicError, match="does not exist"):
            await collect(records)


async def test_corrupt_batches_raise() -> None:
    batch = bytearray(stored_batch([b"value"]))
    batch[-3] ^= 1
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        partition = brokers.create_topic(TOPIC).partitions[0]
        fill(partition, 1)

        def corrupt(answer: FetchResponse) -> FetchResponse:
            (topic,) = answer.responses
            rows = tuple(replace(row, records=bytes(batch)) for row in topic.partitions)
            return replace(answer, responses=(replace(topic, partitions=rows),))

        brokers.fault(FetchRequest, edit=corrupt)
        with pytest.raises(CorruptRecordError, match="Partition 0 of topic 'orders' can't be read: The checksum"):
            await collect(reader.read(TOPIC))


async def test_a_response_over_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.reader.fetching.FRAME_SIZE_MAX", 5000)
    monkeypatch.setattr("aioprod.reader.fetching._RESPONSE_OVERHEAD", 1000)
    async with FakeCluster() as brokers:
        store(brokers.create_topic(TOPIC).partitions[0], stored_batch([bytes(6000)]))
        async with new_reader(brokers, fetch_max_bytes=6000) as reader:
            assert len(await collect(reader.read(TOPIC))) == 1
        async with new_reader(brokers, fetch_max_bytes=3000) as reader:
            with pytest.raises(ProtocolError, match="announces a frame of 6"):
                await collect(reader.read(TOPIC))
