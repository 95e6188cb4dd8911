"""One key's records, sent by many tasks at once through retries and broken brokers, are read in send order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import NamedTuple

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.reader import Reader
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop, start
from tests.support.key_order import KeyedSenders, disorder
from tests.support.length import by_length
from tests.support.sessions import keep_loop_time

KEYS = (b"retail", b"corporate", b"markets", b"", "søt".encode())
PARTITIONS = 4
REFUSALS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
)


class Place:
    """Where things go wrong."""

    def __init__(self, brokers: FakeCluster, source: Random) -> None:
        self.brokers = brokers
        self.source = source

    def node(self) -> int:
        return self.source.randint(1, 3)

    async def request_lost(self) -> None:
        self.brokers.fault(ProduceRequest, drop="before", times=self.node())

    async def answer_lost(self) -> None:
        self.brokers.fault(ProduceRequest, drop="after", times=self.node())

    async def metadata_lost(self) -> None:
        self.brokers.fault(MetadataRequest, drop="after")
        await self.leader_moved()

    async def refused(self) -> None:
        tp = TopicPartition("orders", self.source.randrange(PARTITIONS))
        self.brokers.fault(ProduceRequest, error=self.source.choice(REFUSALS), partition=tp, times=self.node())

    async def refused_after_it_was_stored(self) -> None:
        self.brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, apply=True)

    async def connections_cut(self) -> None:
        await self.brokers[self.node()].cut()

    async def leader_moved(self) -> None:
        self.brokers.move_leader("orders", self.source.randrange(PARTITIONS))

    async def broker_killed(self) -> None:
        victim = self.node()
        await self.brokers.kill(victim)
        await asyncio.sleep(self.source.choice((0.05, 2)))
        await self.brokers.restart(victim)

    async def broker_frozen(self) -> None:
        victim = self.node()
        self.brokers.freeze(victim)
        await asyncio.sleep(self.source.choice((0.5, 4)))
        self.brokers.thaw(victim)

    async def everything(self) -> None:
        """Each of these twice, in some order, with and without time to recover."""
        happenings: list[Callable[[], Awaitable[None]]] = [
            self.request_lost,
            self.answer_lost,
            self.metadata_lost,
            self.refused,
            self.refused_after_it_was_stored,
            self.connections_cut,
            self.leader_moved,
            self.broker_killed,
            self.broker_frozen,
        ]
        happenings *= 2
        self.source.shuffle(happenings)
        for happening in happenings:
            await happening()
            await asyncio.sleep(self.source.choice((0, 0.01, 0.5)))


class Run(NamedTuple):
    """What came of a run."""

    wrong: list[str]
    records: int
    errors: int
    retries: float


async def run(loop: SimulatedLoop, seed: int, partitioner: str | None) -> Run:
    """Send while everything goes wrong; then read back."""
    source = Random(seed)
    async with FakeCluster(3, seed=seed) as brokers:
        brokers.create_topic("orders", PARTITIONS)
        producer = Producer(
            brokers.bootstrap,
            partitioner=partitioner,
            batch_size=source.choice((0, 100, 16_384)),
            linger_ms=source.choice((0, 5)),
            compression_type=source.choice(("none", "lz4")),
            request_timeout_ms=2000,
            delivery_timeout_ms=600_000,
        )
        await start(producer, loop)
        senders = KeyedSenders(producer, "orders", KEYS, source)
        async with senders.running():
            await senders.more(50)
            await Place(brokers, source).everything()
            await senders.more(50)
        retries = producer.metrics()["record_retry_total"]
        await producer.close()
        reader = Reader(brokers.bootstrap)
        keep_loop_time(reader._session, random=source)
        async with reader:
            read = [record async for record in reader.read("orders")]
        brokers.end_faults()
        return Run(disorder(read, senders.sent), senders.sent.total(), len(senders.errors), retries)


@pytest.mark.parametrize("seed", range(by_length(2, 5)))
@pytest.mark.parametrize("partitioner", [None, "murmur2", "consistent"])
def test_one_keys_records_are_read_in_send_order(partitioner: str | None, seed: int) -> None:
    with SimulatedLoop(seed=seed) as loop:
        found = loop.run(run(loop, seed, partitioner))
    assert found.wrong == []
    assert found.errors == 0
    assert found.records >= 100
    assert found.retries > 0


class Line(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("0213", "b'k': 4 records for 4, in order up to number 1"),
        ("013", "b'k': 3 records for 4, in order up to number 2"),
        ("01123", "b'k': 5 records for 4, in order up to number 2"),
        ("012", "b'k': 3 records for 4, in order up to number 3"),
    ],
)
def test_disorder_is_noticed(values: str, said: str) -> None:
    log = [Line(0, b"k", value.encode()) for value in values]
    assert disorder(log, Counter({b"k": 4})) == [said]


def test_a_key_in_two_places_and_one_from_nowhere_are_noticed() -> None:
    log = [Line(0, b"k", b"0"), Line(1, b"k", b"1"), Line(1, b"x", b"0")]
    assert disorder(log, Counter({b"k": 2})) == ["b'x' was never sent", "b'k' is in the partitions [0, 1]"]
    assert disorder(log[:2], Counter({b"k": 2, b"lost": 1}))[1:] == [
        "b'lost' is in the partitions []",
        "b'lost': 0 records for 1, in order up to number 0",
    ]
