"""The brokers of the benchmarks: real Kafka, and librdkafka's mock broker, which takes very little CPU time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from aioprod.testing import KafkaCluster, Security
from benchmarks.log_ins import librdkafka_settings

__all__ = ["BROKERS", "USUAL", "Broker", "start"]

TOPIC: Final = "records"
_MOCK_PARTITIONS: Final = 4
"""The number of partitions of each topic of librdkafka's mock; Python can't set another one."""
_KAFKA_PARTITIONS: Final = 8
_KAFKA_MANY_PARTITIONS: Final = 10
_CREATED_AT_ONCE: Final = 100
_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Broker:
    """One running broker: its address, and how to create topics.

    `partitions` is the number of partitions of each topic; `many_partitions` that of each topic created by `many`.
    `log_in` are the settings that its clients need, by aioprod's names.
    """

    name: str
    title: str
    bootstrap_servers: str
    partitions: int
    many_partitions: int
    create: Callable[[list[str], int], None]
    log_in: dict[str, Any] = field(default_factory=dict)

    def many(self, partitions: int) -> tuple[str, ...]:
        """Create topics that have at least this many partitions together."""
        names = [f"many-{number:04}" for number in range(-(-partitions // self.many_partitions))]
        self.create(names, self.many_partitions)
        return tuple(names)


@asynccontextmanager
async def start(name: str) -> AsyncIterator[Broker]:
    """Start the broker of that name with the topic `records`; stop it at the end of the block."""
    async with BROKERS[name]() as broker:
        await asyncio.to_thread(broker.create, [TOPIC], broker.partitions)
        yield broker


@asynccontextmanager
async def _kafka(security: Security | None = None) -> AsyncIterator[Broker]:
    """Start one real broker on this machine, with a short retention.

    There are no consumers, so it writes no index: the first index entry of each partition costs two fsyncs, and those
    of 10,000 partitions would disturb the measurements.
    """
    cluster = await KafkaCluster.start(
        backend="local",
        security=security,
        progress=lambda line: print(line, file=sys.stderr),
        log_index_interval_bytes=2**30,
        log_segment_bytes=64 * 1024 * 1024,
        log_retention_bytes=128 * 1024 * 1024,
        log_retention_check_interval_ms=15_000,
        log_segment_delete_delay_ms=1000,
    )
    async with cluster:
        log_in = {} if security is None else security.client_options()
        address = {"bootstrap.servers": cluster.bootstrap_servers, **librdkafka_settings(log_in)}
        yield Broker(
            "kafka" if security is None else "tls",
            f"Kafka {cluster.version}" + ("" if security is None else ", TLS and SCRAM-SHA-512"),
            cluster.bootstrap_servers,
            _KAFKA_PARTITIONS,
            _KAFKA_MANY_PARTITIONS,
            lambda names, partitions: _create(address, names, partitions),
            log_in,
        )


def _tls() -> AbstractAsyncContextManager[Broker]:
    """Start the same broker with TLS 1.3 and a log-in."""
    return _kafka(Security(mechanisms=["SCRAM-SHA-512"]))


def _create(address: dict[str, str], names: list[str], partitions: int) -> None:
    """Create the topics that don't exist, and wait until each partition accepts records."""
    admin = AdminClient({**address, "log_level": 0})
    for first in range(0, len(names), _CREATED_AT_ONCE):
        topics = [NewTopic(name, partitions, 1) for name in names[first : first + _CREATED_AT_ONCE]]
        for created in admin.create_topics(topics, request_timeout=_TIMEOUT_S).values():
            try:
                created.result(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
    deadline = time.monotonic() + _TIMEOUT_S
    while not admin.list_topics(timeout=_TIMEOUT_S).topics.keys() >= set(names):
        if time.monotonic() > deadline:
            raise TimeoutError(f"The broker does not know {len(names)} new topics after {_TIMEOUT_S:.0f} s.")
        time.sleep(_POLL_S)
    _write_to_each(address, names, partitions)


def _write_to_each(address: dict[str, str], names: list[str], partitions: int) -> None:
    """Write one record to each partition: brokers announce partitions before they create their logs, which is slow."""
    missing = {(name, partition) for name in names for partition in range(partitions)}
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            missing.discard((message.topic(), message.partition()))
        else:
            failures.append(error)

    producer = Producer({**address, "log_level": 0})
    deadline = time.monotonic() + _TIMEOUT_S
    while missing:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(missing)} partitions take no records: {failures[-1:]}.")
        for name, partition in sorted(missing):
            producer.produce(name, b"", partition=partition, on_delivery=delivered)
        producer.flush(_TIMEOUT_S)


@asynccontextmanager
async def _mock() -> AsyncIterator[Broker]:
    """Start librdkafka's mock broker in its own process; it creates each topic in a client's metadata request."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.mock", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().strip()
        client = Producer({"bootstrap.servers": address, "log_level": 0})
        yield Broker(
            "mock",
            "librdkafka's mock broker",
            address,
            _MOCK_PARTITIONS,
            _MOCK_PARTITIONS,
            lambda names, partitions: _create_by_metadata(client, names),
        )
    finally:
        process.stdin.close()
        await process.wait()


def _create_by_metadata(client: Producer, names: list[str]) -> None:
    for name in names:
        client.list_topics(name, timeout=_TIMEOUT_S)


BROKERS = {"kafka": _kafka, "mock": _mock, "tls": _tls}
USUAL: Final = ("kafka", "mock")
