"""A producer in a rack."""

from __future__ import annotations

import pytest

from aioprod import Producer
from aioprod.errors import ErrorCode
from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster

RACKS = ("a", "b", "c")
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
