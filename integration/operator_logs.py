"""The log for operators: the lines that a producer logs during an outage, and without one.

`python -m integration.operator_logs [scenario ...]` starts three brokers and prints the log of each scenario: a start
without Kafka, a broker that is down for 20 s, a deleted topic, and MINUTES (by default 10) of healthy load.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from aioprod import Producer
from aioprod.admin import Admin
from aioprod.errors import AioprodError, MetadataTimeoutError
from aioprod.testing import KafkaCluster

__all__ = ["Lines", "broker_lost", "healthy", "logged", "start_without_kafka", "topic_deleted"]

TOPICS: Final = tuple(f"orders-{number}" for number in range(5))
PARTITIONS: Final = 6


class Lines(logging.Handler):
    """Keeps the lines, as (seconds since the beginning, level, text), and prints them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.told: list[tuple[float, str, str]] = []
        self._begun = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        line = time.monotonic() - self._begun, record.levelname, record.getMessage()
        self.told.append(line)
        print(f"{line[0]:9.3f} s  {line[1]:7}  {record.name}  {line[2]}", flush=True)


@contextlib.contextmanager
def logged() -> Iterator[Lines]:
    """Print what aioprod's loggers get from INFO on."""
    logger, lines = logging.getLogger("aioprod"), Lines()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(lines)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)
        logger.setLevel(before)


async def start_without_kafka(servers: str = "localhost:1", seconds: float = 25.0) -> None:
    """Nobody listens there."""
    with contextlib.suppress(MetadataTimeoutError):
        await Producer(servers, max_block_ms=round(seconds * 1000)).start()


async def broker_lost(cluster: KafkaCluster, topic: str, seconds: float = 20.0) -> None:
    """The first broker is killed while records are sent, and comes back after `seconds`; as long again it is used."""
    async with Producer(cluster.bootstrap_servers, client_id="shop", close_timeout_ms=60_000) as producer:
        sending = asyncio.create_task(_send(producer, [topic], until=lambda: False))
        await asyncio.sleep(1.0)
        await cluster.kill(1)
        await asyncio.sleep(seconds)
        await cluster.restart(1)
        await asyncio.sleep(seconds)
        sending.cancel()
        await asyncio.wait([sending])


async def topic_deleted(cluster: KafkaCluster, topic: str, seconds: float = 20.0) -> None:
    """The topic is deleted while records are sent."""
    async with (
        Admin(cluster.bootstrap_servers) as admin,
        Producer(
            cluster.bootstrap_servers,
            client_id="shop",
            request_timeout_ms=5_000,
            delivery_timeout_ms=round(seconds * 1000),
        ) as producer,
    ):
        for number in range(3):
            try:
                await producer.send(topic, b"order %d" % number)
            except AioprodError as error:
                print(f"             send() raised {type(error).__name__}: {error}")
            if not number:
                await admin.delete_topic(topic)


async def healthy(cluster: KafkaCluster, topics: tuple[str, ...], seconds: float) -> int:
    """A load on several topics for so long; how many records it was."""
    ends_at = time.monotonic() + seconds
    async with Producer(cluster.bootstrap_servers, client_id="shop", linger_ms=5) as producer:
        return await _send(producer, topics, until=lambda: time.monotonic() >= ends_at)


async def _send(producer: Producer, topics: list[str] | tuple[str, ...], *, until: Callable[[], bool]) -> int:
    sent = 0
    while not until():
        for topic in topics:
            for _ in range(20):
                producer.send_nowait(topic, b"x" * 100, key=b"%d" % sent)
                sent += 1
        await producer.drain()
        await asyncio.sleep(0.02)
    return sent


async def main(wanted: list[str]) -> None:
    """Run the scenarios on three brokers."""
    minutes = float(os.environ.get("MINUTES", "10"))

    async def without_kafka(_cluster: KafkaCluster) -> None:
        await start_without_kafka()

    async def lost(cluster: KafkaCluster) -> None:
        await broker_lost(cluster, TOPICS[0])

    async def deleted(cluster: KafkaCluster) -> None:
        await topic_deleted(cluster, TOPICS[1])

    async def well(cluster: KafkaCluster) -> None:
        sent = await healthy(cluster, TOPICS[2:], minutes * 60)
        print(f"             {sent} records in {minutes:g} minutes")

    scenarios: dict[str, Callable[[KafkaCluster], Awaitable[None]]] = {
        "start": without_kafka,
        "lost": lost,
        "deleted": deleted,
        "healthy": well,
    }
    async with await KafkaCluster.start(
        brokers=3, min_insync_replicas=2, auto_create_topics_enable=False, delete_topic_enable=True
    ) as cluster:
        for topic in TOPICS:
            await cluster.create_topic(topic, PARTITIONS, 3)
        for name in wanted or list(scenarios):
            print(f"--- {name}")
            with logged() as lines:
                await scenarios[name](cluster)
            print(f"             {len(lines.told)} lines from INFO on")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
