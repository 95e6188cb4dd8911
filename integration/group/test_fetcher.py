"""Fetching from real brokers while partitions are assigned and revoked, and a producer writes to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from confluent_kafka import TopicPartition as TheirPartition
from confluent_kafka.admin import AdminClient

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.errors import BrokerError, ErrorCode
from aioprod.group.config import MemberConfig
from aioprod.group.fetcher import Fetcher
from aioprod.group.offset_reset import OffsetReset
from aioprod.group.offsets import commit_offsets, start_offsets
from aioprod.reader import Reader
from aioprod.reader.fetching import answer_size_max
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.testing import KafkaCluster
from aioprod.types import ConsumedRecord, GroupMetadata, OffsetAndMetadata
from integration.support.brokers import VERSIONS, SharedClusters
from integration.support.clusters import MakeTopic, dead
from integration.support.figures import Figures
from integration.support.groups import group_offset


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker of each version."""
    return shared_clusters(version=request.param)


@asynccontextmanager
async def running_fetcher(
    cluster: KafkaCluster, *, isolation: str = "read_uncommitted", reset: str = "earliest", **options: Any
) -> AsyncIterator[tuple[Fetcher, Session]]:
    """A fetcher and its session."""
    options |= {"isolation_level": isolation, "auto_offset_reset": reset}
    config = MemberConfig.from_options(bootstrap_servers=cluster.bootstrap_servers, **options)
    session = Session(config, "member", frame_size_max=answer_size_max(config))
    await session.start()
    fetcher = Fetcher(session, config)
    try:
        yield fetcher, session
    finally:
        await fetcher.close()
        await session.close()


async def take(fetcher: Fetcher, count: int, limit_s: float = 60.0) -> list[ConsumedRecord]:
    found: list[ConsumedRecord] = []
    async with asyncio.timeout(limit_s):
        while len(found) < count:
            record = await fetcher.next()
            assert record is not None
            found.append(record)
    return found


def values(records: list[ConsumedRecord]) -> list[int]:
    return [int(record.value) for record in records]


async def write(cluster: KafkaCluster, topic: str, values: range, *, partition: int = 0, **options: Any) -> None:
    async with Producer(cluster.bootstrap_servers, **options) as producer:
        await producer.send_many(topic, [b"%d" % value for value in values], partition=partition)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, 2])
async def test_partitions_come_and_go_while_topics_are_written(
    broker: KafkaCluster, make_topic: MakeTopic, seed: int
) -> None:
    random = Random(seed)
    topics = [await make_topic(broker, partitions=4) for _ in range(3)]
    places = [TopicPartition(name, index) for name in topics for index in range(4)]
    written = dict.fromkeys(places, 0)
    is_over = False

    async def keep_writing() -> None:
        async with Producer(broker.bootstrap_servers, compression_type="lz4", linger_ms=1) as producer:
            while not is_over:
                tp = random.choice(places)
                count = random.randint(1, 50)
                await producer.send_many(
                    tp.topic, [b"%d" % (written[tp] + index) for index in range(count)], partition=tp.partition
                )
                written[tp] += count

    writing = asyncio.create_task(keep_writing())
    expected: dict[TopicPartition, int] = {}
    async with running_fetcher(broker, max_partition_fetch_bytes=2000, fetch_max_wait_ms=50) as (fetcher, _):

        async def check_next() -> None:
            (record,) = await take(fetcher, 1)
            tp = TopicPartition(record.topic, record.partition)
            assert record.offset == int(record.value) == expected[tp], record
            expected[tp] += 1

        end = time.monotonic() + 5
        while time.monotonic() < end:
            some = random.sample(places, random.randint(1, 4))
            if random.random() < 0.5:
                at = {tp: random.choice([EARLIEST, expected.get(tp, 0)]) for tp in some}
                fetcher.add(at)
                expected |= {tp: max(offset, 0) for tp, offset in at.items()}
            else:
                fetcher.drop(some)
                for tp in some:
                    expected.pop(tp, None)
            for _ in range(random.randint(0, 200) if expected else 0):
                await check_next()
        is_over = True
        await writing
        while any(expected[tp] < written[tp] for tp in expected):
            await check_next()
        assert fetcher.positions == {tp: written[tp] for tp in expected}


async def test_retention_and_ends(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(broker)
    tp = TopicPartition(topic, 0)
    await write(broker, topic, range(100), batch_size=200)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TheirPartition(topic, 0, 60)]).values():
        await asyncio.to_thread(future.result, 30)
    for reset, beyond in [("earliest", 10), ("earliest", 1000), ("latest", 10), ("none", 10)]:
        async with running_fetcher(broker, reset=reset) as (fetcher, _):
            fetcher.add({tp: beyond})
            if reset == "earliest":
                assert values(await take(fetcher, 40)) == list(range(60, 100))
            elif reset == "latest":
                waiting = asyncio.ensure_future(take(fetcher, 1))
                while fetcher.positions != {tp: 100}:
                    await asyncio.sleep(0.01)
                await write(broker, topic, range(100, 101))
                assert values(await waiting) == [100]
            else:
                with pytest.raises(BrokerError, match=r"auto\.offset\.reset is none") as failure:
                    await fetcher.next()
                assert failure.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("duration", "start"), [("PT1H", 2), ("P1D", 1), ("PT1S", 3)])
async def test_it_begins_by_duration(broker: KafkaCluster, make_topic: MakeTopic, duration: str, start: int) -> None:
    topic = await make_topic(broker)
    async with Producer(broker.bootstrap_servers) as producer:
        for index, age_s in enumerate((7 * 86_400, 7_200, 1_800)):
            await producer.send(topic, b"%d" % index, timestamp=int((time.time() - age_s) * 1000))
    async with running_fetcher(broker, reset=f"by_duration:{duration}") as (fetcher, _):
        fetcher.add({TopicPartition(topic, 0): None})
        waiting = asyncio.ensure_future(take(fetcher, 4 - start))
        while not fetcher.starts:
            await asyncio.sleep(0.01)
        assert fetcher.starts == {TopicPartition(topic, 0): start}
        await write(broker, topic, range(3, 4))
        assert values(await waiting) == list(range(start, 4))


@pytest.mark.timeout(180)
async def test_a_topic_is_deleted_and_created_again(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, other = await make_topic(broker), await make_topic(broker)
    await write(broker, topic, range(10))
    async with Admin(broker.bootstrap_servers) as admin, running_fetcher(broker) as (fetcher, _):
        fetcher.add({TopicPartition(topic, 0): 0, TopicPartition(other, 0): LATEST})
        assert values(await take(fetcher, 10)) == list(range(10))
        await admin.delete_topic(topic)
        waiting = asyncio.ensure_future(take(fetcher, 5))
        await asyncio.sleep(2)
        await write(broker, other, range(5))
        assert values(await waiting) == list(range(5))
        await admin.create_topic(topic, partitions=1)
        # More than before: only the topic's id tells that it is another one.
        await write(broker, topic, range(20))
        assert values(await take(fetcher, 20)) == list(range(20))


async def test_transactions(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(broker)
    tp = TopicPartition(topic, 0)
    committed: list[int] = []
    async with (
        Producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        running_fetcher(broker, isolation="read_committed") as (fetcher, _),
    ):
        fetcher.add({tp: 0})
        for number in range(20):
            try:
                async with producer.transaction():
                    await producer.send(topic, b"%d" % number, partition=0)
                    if number % 3 == 0:
                        raise LookupError
                committed.append(number)
            except LookupError:
                continue
        assert values(await take(fetcher, len(committed))) == committed
        waiting = asyncio.ensure_future(fetcher.next())
        # Beyond the last marker, when somebody waits there.
        while fetcher.positions != {tp: 40}:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_where_a_group_begins_and_what_it_commits(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(broker, partitions=2)
    places = [TopicPartition(topic, index) for index in range(2)]
    async with running_fetcher(broker) as (_, session):
        coordinator = Coordinator(session.client, "group", topic)
        deadline = session.clock() + 60.0
        found = await start_offsets(coordinator, places, deadline, OffsetReset("latest"))
        assert found == dict.fromkeys(places)
        stranger = GroupMetadata(topic)
        await commit_offsets(coordinator, stranger, {places[1]: OffsetAndMetadata(7, "here")}, deadline)
        assert await group_offset(broker, topic, topic, 1) == 7
        found = await start_offsets(coordinator, places, deadline, OffsetReset("earliest"))
        assert found == {places[0]: None, places[1]: OffsetAndMetadata(7, "here")}
        with pytest.raises(BrokerError, match=f"{topic}-0"):
            await start_offsets(coordinator, places, deadline, OffsetReset("none"))
        for metadata in (GroupMetadata(topic, 3, "nobody"), GroupMetadata(topic, 3, "nobody", "static")):
            with pytest.raises(BrokerError) as refused:
                await commit_offsets(coordinator, metadata, {places[0]: OffsetAndMetadata(1)}, deadline)
            assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        with pytest.raises(BrokerError) as refused:
            await commit_offsets(coordinator, stranger, {places[0]: OffsetAndMetadata(1, "x" * 5000)}, deadline)
        assert refused.value.code == ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_leaders_move_while_partitions_are_read(kafka_cluster_3: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster_3, partitions=12, min_insync_replicas=1)
    for index in range(12):
        await write(kafka_cluster_3, topic, range(300), partition=index)
    async with running_fetcher(kafka_cluster_3, max_partition_fetch_bytes=500) as (fetcher, _):
        fetcher.add({TopicPartition(topic, index): 0 for index in range(12)})
        found = await take(fetcher, 100)
        for broker_id in (1, 2, 3):
            async with dead(kafka_cluster_3, broker_id):
                found += await take(fetcher, 500)
        found += await take(fetcher, 3600 - len(found))
        for index in range(12):
            assert values([one for one in found if one.partition == index]) == list(range(300))


async def test_speed(broker: KafkaCluster, make_topic: MakeTopic, figures: Figures) -> None:
    topic = await make_topic(broker, partitions=4)
    count = 200_000
    async with Producer(broker.bootstrap_servers) as producer:
        await producer.send_many(topic, [b"x" * 100] * count)
    for name in ("Reader.read", "Fetcher.next"):
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        if name == "Reader.read":
            async with Reader(broker.bootstrap_servers) as reader:
                assert sum([1 async for _ in reader.read(topic)]) == count
        else:
            async with running_fetcher(broker) as (fetcher, _):
                fetcher.add({TopicPartition(topic, index): 0 for index in range(4)})
                for _ in range(count):
                    await fetcher.next()
        cpu_ns = round((time.process_time() - began_cpu_s) / count * 1e9)
        figures.add(f"ns of CPU a record, {name}, Kafka {broker.version}", cpu_ns)
        figures.add(f"records/s, {name}, Kafka {broker.version}", round(count / (time.perf_counter() - began_s)))
