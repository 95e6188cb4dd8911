"""Brokers of different versions side by side, and versions that change under way: each connection speaks its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.messages.produce import PartitionProduceData
from aioprod.testing import FakeCluster
from aioprod.wire.schema import AnyRequest
from tests.support.producers import ShiftedClock, pass_time, running, until

OLD, NEW = 1, 2
NO_TOPIC_IDS, WITH_TOPIC_IDS = 9, 12
"""Metadata before and after topics have ids."""


def speak(brokers: FakeCluster, node_id: int, kind: type[AnyRequest], version: int) -> None:
    """A broker that knows this version at most."""
    brokers[node_id].versions[kind] = (0, version)


def versions_of(brokers: FakeCluster, kind: type[AnyRequest], node_id: int | None = None) -> list[int]:
    """The versions in which brokers were asked, in order."""
    return [one.header.version for one in brokers.seen if isinstance(one.message, kind) and node_id in (None, one.node)]


def sent(brokers: FakeCluster) -> list[PartitionProduceData]:
    """Each partition of each Produce request, in order."""
    return [
        data
        for request in brokers.seen_of(ProduceRequest)
        for topic in request.topic_data
        for data in topic.partition_data
    ]


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("apart", [True, False], ids=["answer lost", "not the leader"])
@pytest.mark.parametrize(("before", "after"), [(13, 12), (13, 9), (13, 8), (13, 7), (13, 3), (9, 7), (7, 9), (3, 13)])
async def test_a_retried_batch_speaks_the_version_of_its_next_broker(
    before: int, after: int, apart: bool, codec: str
) -> None:
    async with FakeCluster(2) as brokers:
        topic = brokers.create_topic("t")
        speak(brokers, OLD, ProduceRequest, before)
        speak(brokers, NEW, ProduceRequest, after)
        async with running(brokers, compression_type=codec, linger_ms=1) as producer:
            await producer.partitions_for("t")
            if apart:
                first = brokers.fault(ProduceRequest, hold=True, drop="before")
            else:
                first = brokers.fault(ProduceRequest, hold=True, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            futures = [producer.submit("t", b"much the same %d" % n, key=b"k") for n in range(50)]
            await first.reached.wait()
            brokers.state.move_leader(TopicPartition("t", 0), NEW)
            first.release()
            async with asyncio.timeout(10):
                assert [(await future).offset for future in futures] == list(range(50))
        assert (versions_of(brokers, ProduceRequest, OLD)[0], versions_of(brokers, ProduceRequest, NEW)[0]) == (
            before,
            after,
        )
        # Neither encoded nor compressed again.
        assert bytes(sent(brokers)[0].records or b"") == bytes(sent(brokers)[-1].records or b"")
        assert [record.value for record in topic.records()] == [b"much the same %d" % n for n in range(50)]


async def test_partitions_of_one_topic_on_brokers_of_different_versions(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=3)
    for node_id, version in ((1, 13), (2, 11), (3, 7)):
        speak(brokers, node_id, ProduceRequest, version)
    async with running(brokers) as producer:
        for index in range(3):
            assert (await producer.send("t", b"v", partition=index)).offset == 0
    assert [versions_of(brokers, ProduceRequest, node_id) for node_id in (1, 2, 3)] == [[13], [11], [7]]


async def test_a_broker_that_comes_back_with_other_versions(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        for version in (9, 13, 7, 12):
            await brokers[1].kill(stay_in_metadata=True)
            waiting = producer.submit("t", b"%d" % version)
            speak(brokers, 1, ProduceRequest, version)
            speak(brokers, 1, MetadataRequest, WITH_TOPIC_IDS if version > 9 else NO_TOPIC_IDS)
            await brokers[1].start()
            async with asyncio.timeout(10):
                await waiting
            assert versions_of(brokers, ProduceRequest)[-1] == version
    assert [record.value for record in topic.records()] == [b"9", b"13", b"7", b"12"]


async def test_what_was_in_flight_when_the_broker_went_down_for_its_upgrade(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    speak(brokers, 1, ProduceRequest, 7)
    async with running(brokers, batch_size=0) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(5)]
        await held.reached.wait()
        await brokers[1].kill(stay_in_metadata=True)
        speak(brokers, 1, ProduceRequest, 13)
        await brokers[1].start()
        async with asyncio.timeout(10):
            assert [(await future).offset for future in futures] == [0, 1, 2, 3, 4]
    assert set(versions_of(brokers, ProduceRequest)) == {7, 13}
    assert [record.value for record in topic.records()] == [b"0", b"1", b"2", b"3", b"4"]


async def test_topics_get_their_ids_with_the_upgrade(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    speak(brokers, 1, MetadataRequest, NO_TOPIC_IDS)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, metadata_max_age_ms=1000) as producer:
        await producer.send("t", b"0")
        assert versions_of(brokers, ProduceRequest) == [12], "no id, so no request that needs one"
        await brokers[1].kill(stay_in_metadata=True)
        waiting = producer.submit("t", b"1")
        speak(brokers, 1, MetadataRequest, WITH_TOPIC_IDS)
        await brokers[1].start()
        assert (await waiting).offset == 1
        pass_time(producer, clock, 2.0)
        await until(lambda: producer._engine.parts.client.metadata.cluster.topic_id("t") == topic.id)
        assert (await producer.send("t", b"2")).offset == 2
        assert versions_of(brokers, ProduceRequest)[-1] == 13


async def test_metadata_of_old_and_new_brokers_in_turn(brokers: FakeCluster) -> None:
    """An answer without ids and epochs does not undo what a newer broker told."""
    topic = brokers.create_topic("t")
    clock = ShiftedClock()
    options: dict[str, Any] = {"metadata_max_age_ms": 1000, "delivery_timeout_ms": 10**6}
    async with running(brokers, clock=clock, **options) as producer:
        for turn, version in enumerate((12, 4, 12, 8, 9, 12)):
            await brokers[1].kill(stay_in_metadata=True)
            speak(brokers, 1, MetadataRequest, version)
            await brokers[1].start()
            pass_time(producer, clock, 2.0)
            async with asyncio.timeout(10):
                assert (await producer.send("t", b"%d" % turn)).offset == turn
        assert producer._engine.parts.client.metadata.cluster.topic_id("t") == topic.id
    assert set(versions_of(brokers, ProduceRequest)) == {13}
