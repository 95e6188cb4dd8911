"""A producer in a rack."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import ErrorCode
from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition

RACKS = ("a", "b", "c")
NEAR = {"client_rack": "b", "partitioner_rack_aware": True}
OF_ZONES = ("bytes_sent_within_zone_total", "bytes_sent_across_zones_total")


@pytest.mark.parametrize(("rack", "partition"), [("b", 1), ("a", 1), ("x", 2), ("", 0)])
async def test_bytes_within_and_across_zones(rack: str, partition: int) -> None:
    """Those of a batch that is retried count each time."""
    async with FakeCluster(3, racks=RACKS) as cluster, Producer(cluster.bootstrap, client_rack=rack) as producer:
        cluster.create_topic("t", 3)
        cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        await producer.send("t", b"1", partition=partition)
        found = producer.metrics()
        total = found["byte_total"]
        values = [found.get(name) for name in OF_ZONES]
        assert values == ([total, 0] if rack == RACKS[partition] else [0, total] if rack else [None, None])
        assert total > 100


async def test_a_leader_that_moves_to_another_zone() -> None:
    async with FakeCluster(3, racks=RACKS) as cluster, Producer(cluster.bootstrap, client_rack="a") as producer:
        cluster.create_topic("t")
        await producer.send("t", b"1")
        within = producer.metrics()[OF_ZONES[0]]
        assert within > 0
        # The answer of the old leader names the new one, with its rack.
        cluster.move_leader("t", 0, 3)
        await producer.send("t", b"1")
        await producer.send("t", b"1")
        found = producer.metrics()
        assert (found[OF_ZONES[0]], found[OF_ZONES[1]]) == (2 * within, 2 * within)


async def test_a_rack_in_which_no_broker_is(patient: None, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(2, racks=("b", None)) as cluster, Producer(cluster.bootstrap, client_rack="x") as producer:
        cluster.create_topic("t")
        await producer.send("t", b"1")
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["No broker is in the rack 'x' (client.rack), so all racks are used: they are in b"]


# --- partitioner.rack.aware


def small(cluster: FakeCluster, **options: Any) -> Producer:
    """A producer whose sticky choice changes with each record."""
    return Producer(cluster.bootstrap, **{"batch_size": 1, "linger_ms": 0, **NEAR, **options})


async def sent_to(producer: Producer, count: int = 40, key: bytes | None = None) -> set[int]:
    """The partitions of some records."""
    return {(await producer.send("t", b"1", key=key)).partition for _ in range(count)}


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, {1, 4, 7}),
        ({"partitioner_adaptive_partitioning_enable": False}, {1, 4, 7}),
        ({"client_rack": "x"}, set(range(9))),
        ({"partitioner_rack_aware": False}, set(range(9))),
        # A partitioner that is set chooses for itself.
        ({"partitioner": "sticky"}, set(range(9))),
    ],
    ids=["adaptive", "uniform", "unknown rack", "off", "own partitioner"],
)
async def test_records_without_a_key_go_to_leaders_in_the_rack(options: dict[str, Any], chosen: set[int]) -> None:
    async with FakeCluster(3, racks=RACKS) as cluster, small(cluster, **options) as producer:
        cluster.create_topic("t", 9)
        assert await sent_to(producer, 150) == chosen


async def test_records_with_a_key_go_where_it_says() -> None:
    async with FakeCluster(3, racks=RACKS) as cluster:
        cluster.create_topic("t", 9)
        async with small(cluster) as producer:
            found = {(await producer.send("t", b"1", key=b"%d" % number)).partition for number in range(150)}
            assert found == set(range(9))
            assert (await producer.send("t", b"1", partition=5)).partition == 5
        async with small(cluster, partitioner_ignore_keys=True) as producer:
            assert await sent_to(producer, key=b"key") == {1, 4, 7}


async def test_send_many_and_parked_records_go_there_too() -> None:
    async with FakeCluster(3, racks=RACKS) as cluster, small(cluster) as producer:
        topic = cluster.create_topic("t", 9)
        await producer.send_many("t", [b"%d" % number for number in range(100)])
        assert {index for index, log in enumerate(topic.partitions) if log.log} <= {1, 4, 7}


async def test_leaders_that_move_are_followed() -> None:
    async with FakeCluster(3, racks=RACKS) as cluster, small(cluster, metadata_max_age_ms=20) as producer:
        cluster.create_topic("t", 3)
        assert await sent_to(producer) == {1}
        cluster.move_leader("t", 0, 2)
        await settled(producer, {0: 2, 1: 2, 2: 3})
        assert await sent_to(producer) == {0, 1}
        # Out of the zone with all of them, and with one of them back.
        for partition in (0, 1):
            cluster.move_leader("t", partition, 3)
        await settled(producer, {0: 3, 1: 3, 2: 3})
        assert await sent_to(producer, 60) == {0, 1, 2}
        cluster.move_leader("t", 2, 2)
        await settled(producer, {0: 3, 1: 3, 2: 2})
        assert await sent_to(producer) == {2}


async def test_a_broker_that_comes_back_in_another_rack() -> None:
    async with FakeCluster(3, racks=RACKS) as cluster, small(cluster, metadata_max_age_ms=20) as producer:
        cluster.create_topic("t", 3)
        assert await sent_to(producer) == {1}
        cluster.state.racks[3] = "b"
        async with asyncio.timeout(20):
            while (await sent_to(producer, 20)) != {1, 2}:
                pass


async def test_the_broker_of_the_rack_goes_and_comes_back() -> None:
    """Nothing is lost or doubled."""
    async with FakeCluster(3, racks=RACKS) as cluster, small(cluster, metadata_max_age_ms=20) as producer:
        topic = cluster.create_topic("t", 3)
        assert await sent_to(producer, 20) == {1}
        await cluster.kill(2)
        assert await sent_to(producer, 60) == {0, 1, 2}
        await cluster.restart(2)
        cluster.move_leader("t", 1, 2)
        await settled(producer, {1: 2})
        assert await sent_to(producer, 20) == {1}
        assert len(topic.records()) == 100


async def settled(producer: Producer, leaders: dict[int, int]) -> None:
    """Wait until the producer knows these leaders."""
    async with asyncio.timeout(20):
        while any(leader_of(producer, partition) != leader for partition, leader in leaders.items()):
            await asyncio.sleep(0.001)


def leader_of(producer: Producer, partition: int) -> int | None:
    leader = producer._engine.parts.client.metadata.cluster.leader_for(TopicPartition("t", partition))
    return None if leader is None else leader.id
