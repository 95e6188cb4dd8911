"""Tests with a real broker: `aioprod[testing]` has the fixtures, and no setup is needed.

    pytest examples/test_with_docker.py                         a container if Docker has the image, else processes
    AIOPROD_KAFKA=docker pytest examples/test_with_docker.py    in a container, or fail
    AIOPROD_KAFKA=local pytest examples/test_with_docker.py     Kafka's processes on this machine, no Docker
    python examples/test_with_docker.py localhost:9092          with a running broker

`kafka_cluster` is one broker for the whole run, `kafka_topic` a new topic for each test, and `tcp_proxy` a network that
fails on demand.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import pytest

from aioprod import Producer
from aioprod.errors import MetadataTimeoutError
from aioprod.reader import read
from aioprod.testing import KafkaCluster, TcpProxy


async def pay(producer: Producer, topic: str, account: bytes, cents: int) -> int:
    """The code under test: publish a payment and return its offset."""
    return (await producer.send(topic, b"%d" % cents, key=account, headers=[("kind", b"payment")])).offset


def test_a_payment_is_stored(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    """Another client reads what was acknowledged."""

    async def scenario() -> None:
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            assert await pay(producer, kafka_topic, b"alice", 1250) == 0
        records = [record async for record in read(kafka_topic, bootstrap_servers=kafka_cluster.bootstrap_servers)]
        assert [(record.key, record.value) for record in records] == [(b"alice", b"1250")]

    asyncio.run(scenario())


def test_an_unreachable_broker_is_reported_in_time(
    kafka_cluster: KafkaCluster, tcp_proxy: Callable[[str], TcpProxy]
) -> None:
    """With a broken network the start of a service fails, and does not hang."""
    proxy = tcp_proxy(kafka_cluster.bootstrap_servers.split(",")[0])
    proxy.drop = True
    with pytest.raises(MetadataTimeoutError, match=proxy.address):
        asyncio.run(Producer(proxy.address, max_block_ms=300).start())


if __name__ == "__main__":
    os.environ["AIOPROD_KAFKA"] = sys.argv[1]
    sys.exit(pytest.main([__file__]))
