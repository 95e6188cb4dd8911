"""A topic without a leader, beside one that is delivered: who gets the memory of the producer; on real brokers."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from aioprod import Producer
from aioprod.errors import BufferFullError
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic, dead

pytestmark = pytest.mark.timeout(180)

KILOBYTE: Final = b"x" * 1000
SMALL: Final[dict[str, Any]] = {"buffer_memory": 2_000_000, "max_request_size": 500_000}


async def test_a_topic_without_leader_takes_nothing_from_the_others(
    kafka_cluster_3: KafkaCluster, make_topic: MakeTopic
) -> None:
    cluster = kafka_cluster_3
    lonely = await make_topic(cluster, 3, replication_factor=1)
    safe = await make_topic(cluster, 3, replication_factor=3)
    async with Producer(cluster.bootstrap_servers, **SMALL) as producer:
        (stuck,) = [
            info.partition
            for info in await producer.partitions_for(lonely)
            if info.leader is not None and info.leader.id == 3
        ]
        await producer.send(lonely, b"first", partition=stuck)
        await producer.send_many(safe, [b"first"] * 3)
        kept: list[asyncio.Future[Any]] = []
        async with dead(cluster, 3):
            refused = ""
            while "can't be delivered" not in refused:
                try:
                    kept.append(producer.submit(lonely, KILOBYTE, partition=stuck))
                except BufferFullError as error:
                    refused = str(error)
                    await producer.send(safe, KILOBYTE)
            assert f"{lonely}-{stuck} holds" in refused
            waiting = asyncio.create_task(producer.send(lonely, KILOBYTE, partition=stuck))
            others = [index for index in range(3) if index != stuck]
            for turn in range(20):
                await producer.send_many(safe, [KILOBYTE] * 1000)
                await producer.send(lonely, KILOBYTE, partition=others[turn % 2])
            assert not waiting.done()
            assert producer.buffered.bytes >= 900_000
        await producer.flush()
        offsets = [(await future).offset for future in kept]
        assert offsets == sorted(offsets), "nothing that was accepted is lost, or passed by another"
        assert (await waiting).offset == len(kept) + 1
