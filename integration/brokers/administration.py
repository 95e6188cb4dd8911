"""Checks of `Admin`: topics, and offsets by time."""

from __future__ import annotations

import time
from typing import Final

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.reader.offsets import At
from integration.brokers.broker import Broker
from integration.brokers.comparing import until
from integration.brokers.registry import Check
from integration.brokers.sending import Given, new_topic, sent

__all__ = ["CHECKS"]


async def check_topics(broker: Broker) -> None:
    """Create, describe and delete."""
    name = broker.fresh("topic")
    async with Admin(broker.bootstrap_servers) as admin:
        await admin.create_topic(
            name, partitions=4, replication_factor=1, config={"retention.ms": 3_600_000}, timeout=120
        )
        described = await admin.partitions(name)
        assert [one.partition for one in described] == [0, 1, 2, 3]
        assert all(one.leader is not None and len(one.replicas) == 1 for one in described), described
        assert (await admin.partition_counts())[name] == 4
        await admin.delete_topic(name, timeout=120)

        async def is_there() -> bool:
            return name in await admin.topics()

        await until(f"topic {name} is there", is_there, False)


async def check_defaults(broker: Broker) -> None:
    """Leave the numbers of partitions and replicas to the brokers (KIP-464)."""
    name = broker.fresh("topic")
    async with Admin(broker.bootstrap_servers) as admin:
        await admin.create_topic(name, timeout=120)
        [one] = await admin.partitions(name)
        assert len(one.replicas) == 1, one


async def check_offsets(broker: Broker) -> None:
    """Offsets at the ends and at times."""
    topic = await new_topic(broker, partitions=1)
    begin = int(time.time() * 1000) - 1_000_000
    async with Producer(broker.bootstrap_servers, request_timeout_ms=60_000) as producer:
        for number in range(10):
            # One batch each: of a time within one the brokers tell the first record not before it.
            await sent(producer, topic, [Given(0, None, b"%d" % number, (), begin + 1000 * number)])
    place = TopicPartition(topic, 0)
    async with Admin(broker.bootstrap_servers) as admin:
        expected: tuple[tuple[At, int], ...] = (
            ("earliest", 0),
            ("latest", 10),
            (begin - 1, 0),
            (begin + 3000, 3),
            (begin + 3001, 4),
            (begin + 10_000, 10),
        )
        for at, offset in expected:
            assert await admin.offsets(topic, at) == {place: offset}, f"{at}"


CHECKS: Final = (
    Check("topics: create, describe, delete", check_topics),
    Check("topics: numbers left to the broker", check_defaults, since=(2, 4)),
    Check("offsets by time", check_offsets),
)
