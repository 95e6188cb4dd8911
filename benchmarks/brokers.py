"""The brokers of the benchmarks: real Kafka, also over TLS, librdkafka's mock broker, and a fake one to read from.

The mock broker takes very little CPU time, but keeps too few records to be read from.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from aioprod.cli.peer_settings import librdkafka_settings
from aioprod.testing import KafkaCluster, Security
from benchmarks.data import pairs_of
from benchmarks.fake import BATCH_SIZE

__all__ = ["BROKERS", "TOPIC", "USUAL", "WRITTEN_TO", "Broker", "Stored", "program", "start"]

_ROOT: Final = Path(__file__).parent.parent
TOPIC: Final = "records"
_MOCK_PARTITIONS: Final = 4
"""The number of partitions of each topic of librdkafka's mock; Python can't set another one."""
_KAFKA_PARTITIONS: Final = 8
_KAFKA_MANY_PARTITIONS: Final = 10
_READ_PARTITIONS: Final = 4
_CREATED_AT_ONCE: Final = 100
WRITTEN_TO: Final[Mapping[str, Any]] = {
    "log_index_interval_bytes": 2**30,
    "log_segment_bytes": 64 * 1024 * 1024,
    "log_retention_bytes": 128 * 1024 * 1024,
    "log_retention_check_interval_ms": 15_000,
    "log_segment_delete_delay_ms": 1000,
}
"""Settings of brokers that are written to for long: a short retention, so that the disk does not fill, and no index."""
_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2


def _not_readable(stored: Stored) -> int:
    raise NotImplementedError(f"This broker can't be filled with {stored.records} records to be read.")


@dataclass(frozen=True, slots=True)
class Stored:
    """A topic to be read, and the number of its records."""

    name: str
    partitions: int
    value_size: int
    codec: str
    records: int


@dataclass(frozen=True, slots=True)
class Broker:
    """One running broker: its address, and how to create and fill topics.

    `partitions` is the number of partitions of each topic; `many_partitions` that of each topic created by `many`.
    `fill` creates and fills the topic, and returns how many records it has. `log_in` are the settings that its clients
    need, by aioprod's names. `warms_up`: it gets faster in its first seconds.
    """

    name: str
    title: str
    bootstrap_servers: str
    partitions: int
    many_partitions: int
    create: Callable[[list[str], int], None]
    fill: Callable[[Stored], int] = _not_readable
    log_in: dict[str, Any] = field(default_factory=dict)
    warms_up: bool = False
    _filled: dict[str, Stored] = field(default_factory=dict)

    def many(self, partitions: int) -> tuple[str, ...]:
        """Create topics that have at least this many partitions together."""
        names = [f"many-{number:04}" for number in range(-(-partitions // self.many_partitions))]
        self.create(names, self.many_partitions)
        return tuple(names)

    def filled(self, value_size: int, codec: str, records: int) -> Stored:
        """Return a topic with about so many records with short keys; it is filled at the first call."""
        name = f"read-{value_size}-{codec}-{records}"
        if name not in self._filled:
            stored = Stored(name, _READ_PARTITIONS, value_size, codec, records)
            self._filled[name] = replace(stored, records=self.fill(stored))
        return self._filled[name]


@asynccontextmanager
async def start(name: str) -> AsyncIterator[Broker]:
    """Start the broker of that name with the topic `records`; stop it at the end of the block."""
    async with BROKERS[name]() as broker:
        await asyncio.to_thread(broker.create, [TOPIC], broker.partitions)
        yield broker


@asynccontextmanager
async def _kafka(security: Security | None = None) -> AsyncIterator[Broker]:
    """Start one real broker on this machine, with a short retention.

    It writes no index except for topics to be read: the first index entry of each partition costs two fsyncs, and those
    of 10,000 partitions would disturb the measurements.
    """
    cluster = await KafkaCluster.start(
        backend="local",
        security=security,
        progress=lambda line: print(line, file=sys.stderr),
        **WRITTEN_TO,
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
            lambda stored: _fill(address, stored),
            log_in,
            warms_up=True,
        )


def _tls() -> AbstractAsyncContextManager[Broker]:
    """Start the same broker with TLS 1.3 and a log-in."""
    return _kafka(Security(mechanisms=["SCRAM-SHA-512"]))


def _create(address: dict[str, str], names: list[str], partitions: int) -> None:
    """Create the topics that don't exist, and wait until each partition accepts records."""
    _create_listed(address, [NewTopic(name, partitions, 1) for name in names])
    _write_to_each(address, names, partitions)


def _create_listed(address: dict[str, str], listed: list[NewTopic]) -> None:
    """Create the topics that don't exist, and wait until the broker lists them."""
    admin = AdminClient({**address, "log_level": 0})
    for first in range(0, len(listed), _CREATED_AT_ONCE):
        topics = listed[first : first + _CREATED_AT_ONCE]
        for created in admin.create_topics(topics, request_timeout=_TIMEOUT_S).values():
            try:
                created.result(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
    deadline = time.monotonic() + _TIMEOUT_S
    while not admin.list_topics(timeout=_TIMEOUT_S).topics.keys() >= {topic.topic for topic in listed}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"The broker does not know {len(listed)} new topics after {_TIMEOUT_S:.0f} s.")
        time.sleep(_POLL_S)


def _fill(address: dict[str, str], stored: Stored) -> int:
    """Create a topic that is indexed and kept, and store its records in batches of 64 KiB, partition by partition."""
    config = {"index.interval.bytes": "4096", "retention.bytes": "-1"}
    _create_listed(address, [NewTopic(stored.name, stored.partitions, 1, config=config)])
    given: dict[str, Any] = {"batch.size": BATCH_SIZE, "linger.ms": 100, "compression.type": stored.codec}
    producer = Producer({**address, **given, "queue.buffering.max.messages": stored.records, "log_level": 0})
    acknowledged = 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    for number, (key, value) in enumerate(islice(pairs_of(stored.value_size), stored.records)):
        partition = number * stored.partitions // stored.records
        producer.produce(stored.name, value, key, partition=partition, on_delivery=delivered)
    producer.flush(_TIMEOUT_S)
    if acknowledged != stored.records:
        raise RuntimeError(f"{acknowledged} of {stored.records} records to be read were stored.")
    return acknowledged


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
async def program(module: str, *words: str) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
    """Start a broker that is a module of `benchmarks`; it prints its address, and ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{module}", *words],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = await asyncio.to_thread(process.stdout.readline)
        yield process, address.strip()
    finally:
        await asyncio.to_thread(process.communicate)


@asynccontextmanager
async def _mock() -> AsyncIterator[Broker]:
    """Start librdkafka's mock broker in its own process; it creates each topic in a client's metadata request."""
    async with program("mock") as (_, address):
        client = Producer({"bootstrap.servers": address, "log_level": 0})
        yield Broker(
            "mock",
            "librdkafka's mock broker",
            address,
            _MOCK_PARTITIONS,
            _MOCK_PARTITIONS,
            lambda names, partitions: _create_by_metadata(client, names),
        )


@asynccontextmanager
async def _fake() -> AsyncIterator[Broker]:
    """Start a fake broker of `aioprod.testing` in its own process, which stores topics to be read in its memory."""
    async with program("fake") as (process, address):

        def fill(stored: Stored) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            words = stored.name, stored.partitions, stored.value_size, stored.codec, stored.records
            print(*words, file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield Broker(
            "fake",
            "aioprod's fake broker",
            address,
            _READ_PARTITIONS,
            _READ_PARTITIONS,
            lambda names, partitions: None,
            fill,
        )


def _create_by_metadata(client: Producer, names: list[str]) -> None:
    for name in names:
        client.list_topics(name, timeout=_TIMEOUT_S)


BROKERS = {"kafka": _kafka, "mock": _mock, "fake": _fake, "tls": _tls}
USUAL: Final = ("kafka", "mock")
