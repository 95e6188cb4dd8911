from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from contextlib import aclosing
from dataclasses import replace

import pytest

from aioprod.errors import BrokerError, ErrorCode
from aioprod.messages import FetchRequest, FetchResponse, ListOffsetsRequest, MetadataRequest
from aioprod.reader import read
from aioprod.records import Compression
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, TopicPartition
from aioprod.wire.schema import ZERO_UUID
from tests.support.sessions import FAST, collect, new_reader, offsets_of, tasks_beside
from tests.support.stored_batches import fill, store, stored_batch

TOPIC = "orders"


# --- records


async def test_a_topic_is_read_to_its_end() -> None:
    async with FakeCluster(2) as brokers:
        topic = brokers.create_topic(TOPIC, 5)
        for index, partition in enumerate(topic.partitions):
            fill(partition, 30 * index, batch_records=5)
        before = asyncio.all_tasks()
        found = await collect(read(TOPIC, bootstrap_servers=brokers.bootstrap, **FAST))
        for index in range(5):
            assert offsets_of(found, index) == list(range(30 * index))
        assert found[0] == ConsumedRecord(TOPIC, found[0].partition, 0, None, b"0", (), 1000)
        assert not tasks_beside(before)
        assert not [one for one in brokers.seen_of(MetadataRequest) if one.allow_auto_topic_creation]


async def test_an_empty_topic() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic(TOPIC, 3)
        assert await collect(read(TOPIC, bootstrap_servers=brokers.bootstrap)) == []
        assert not brokers.seen_of(FetchRequest)


async def test_small_answers_let_no_partition_starve() -> None:
    async with FakeCluster() as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        for partition in brokers.create_topic(TOPIC, 3).partitions:
            fill(partition, 20)
        found = await collect(reader.read(TOPIC))
        assert Counter(record.partition for record in found) == {0: 20, 1: 20, 2: 20}
        assert Counter(record.partition for record in found[:30]) == {0: 10, 1: 10, 2: 10}


async def test_an_answer_without_room_for_all() -> None:
    def first_only(answer: FetchResponse) -> FetchResponse:
        (topic,) = answer.responses
        first, *others = topic.partitions
        rows = (first, *(replace(row, records=b"") for row in others))
        return replace(answer, responses=(replace(topic, partitions=rows),))

    async with FakeCluster() as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        for partition in brokers.create_topic(TOPIC, 3).partitions:
            fill(partition, 5)
        brokers.fault(FetchRequest, times=None, edit=first_only)
        found = await collect(reader.read(TOPIC))
        assert [record.partition for record in found[:6]] == [0, 1, 2, 0, 1, 2]
        assert len(found) == 15


async def test_from_here_to_there() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        for partition in brokers.create_topic(TOPIC, 2).partitions:
            fill(partition, 20, batch_records=10)
        found = await collect(reader.read(TOPIC, start={0: 17}, end={TopicPartition(TOPIC, 1): 12}))
        assert offsets_of(found, 0) == [17, 18, 19]
        assert offsets_of(found, 1) == list(range(12))
        at = datetime.datetime.fromtimestamp(1.005, datetime.UTC)
        found = await collect(reader.read(TOPIC, start=at, end=1007, partitions=[1]))
        assert [(record.partition, record.offset) for record in found] == [(1, 5), (1, 6)]
        assert await reader.offsets(TOPIC, "latest") == {TopicPartition(TOPIC, 0): 20, TopicPartition(TOPIC, 1): 20}
        assert await reader.offsets(TOPIC) == await reader.offsets(TOPIC, "latest")
        assert await reader.offsets(TOPIC, at) == {TopicPartition(TOPIC, 0): 5, TopicPartition(TOPIC, 1): 5}


async def test_the_end_is_looked_up_once() -> None:
    async with FakeCluster() as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        topic = brokers.create_topic(TOPIC)
        fill(topic.partitions[0], 3)
        records = reader.read(TOPIC)
        first = await anext(records)
        fill(topic.partitions[0], 3)
        assert offsets_of([first, *[record async for record in records]]) == [0, 1, 2]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_the_isolation_level_is_sent(isolation: str) -> None:
    async with FakeCluster() as brokers, new_reader(brokers, isolation_level=isolation) as reader:
        fill(brokers.create_topic(TOPIC).partitions[0], 3)
        assert len(await collect(reader.read(TOPIC))) == 3
        requests = [*brokers.seen_of(ListOffsetsRequest), *brokers.seen_of(FetchRequest)]
        assert {request.isolation_level for request in requests} == {int(isolation == "read_committed")}


@pytest.mark.parametrize("versions", [(4, 4), (4, 12), (4, 13), (4, 18)])
async def test_old_and_new_brokers(versions: tuple[int, int]) -> None:
    async with FakeCluster() as brokers:
        brokers[1].versions[FetchRequest] = versions
        fill(brokers.create_topic(TOPIC).partitions[0], 3)
        assert offsets_of(await collect(read(TOPIC, bootstrap_servers=brokers.bootstrap))) == [0, 1, 2]
        assert {one.header.version for one in brokers.seen if isinstance(one.message, FetchRequest)} == {versions[1]}


async def test_a_topic_without_id() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        topic = brokers.create_topic(TOPIC)
        topic.id = ZERO_UUID
        fill(topic.partitions[0], 3)
        assert offsets_of(await collect(reader.read(TOPIC))) == [0, 1, 2]
        assert {one.header.version for one in brokers.seen if isinstance(one.message, FetchRequest)} == {12}


async def test_batches_are_returned_undecoded() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        fill(brokers.create_topic(TOPIC).partitions[0], 20, batch_records=10)
        found = [fetched async for fetched in reader.batches(TOPIC, start={0: 5}, end={0: 12})]
        assert [(one.tp, one.batch.base_offset, one.batch.count, one.start, one.end) for one in found] == [
            (TopicPartition(TOPIC, 0), 0, 10, 5, 12),
            (TopicPartition(TOPIC, 0), 10, 10, 10, 12),
        ]
        assert [record.offset for one in found for record in one.records()] == list(range(5, 12))


async def test_answer_by_answer() -> None:
    async with FakeCluster() as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        topic = brokers.create_topic(TOPIC, 2)
        fill(topic.partitions[1], 30, batch_records=10)
        tp = TopicPartition(TOPIC, 1)
        for topic_id in (None, topic.id):
            answers = [answer async for answer in reader.fetch(tp, 5, 22, topic_id=topic_id)]
            assert [[(one.tp, one.start, one.end) for one in answer] for answer in answers] == [
                [(tp, 5, 22)], [(tp, 10, 22)], [(tp, 20, 22)],
            ]  # fmt: skip
        assert len(brokers.seen_of(ListOffsetsRequest)) == 0
        brokers.recreate_topic(TOPIC)
        with pytest.raises(BrokerError, match="deleted and created again") as caught:
            await anext(reader.fetch(tp, 5, 22, topic_id=topic.id))
        assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


async def test_a_log_that_begins_later() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        partition = brokers.create_topic(TOPIC).partitions[0]
        fill(partition, 20, batch_records=10)
        partition.delete_before(13)
        assert offsets_of(await collect(reader.read(TOPIC))) == list(range(13, 20))
        assert [record.offset for record in partition.records()] == list(range(13, 20))
        with pytest.raises(BrokerError, match="its log goes from 13 to 20 now"):
            await anext(reader.fetch(TopicPartition(TOPIC, 0), 12, 20))


async def test_the_loop_gets_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.reader.reader.SLICE_S", 0.0)
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        fill(brokers.create_topic(TOPIC).partitions[0], 50, batch_records=50)
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        async with aclosing(reader.read(TOPIC)) as records:
            await anext(records)
            turns = 0
            assert len([record async for record in records]) == 49
            assert turns >= 49


async def test_large_batches() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        values = [bytes(range(256)) * 2000, b"b"]
        store(brokers.create_topic(TOPIC).partitions[0], stored_batch(values, codec=Compression.GZIP))
        assert [record.value async for record in reader.read(TOPIC)] == values
