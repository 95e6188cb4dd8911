"""Random faults, seeded: nothing is lost, everybody hears once what became of a record, and the log agrees."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from aioprod import Producer, RecordMetadata, TopicPartition
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    DeliveryError,
    ErrorCode,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
)
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import Spy, running

PARTITIONS = 4
RECORDS = 150
ERRORS = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.INVALID_RECORD,
]


@dataclass
class Told:
    """What became of one record, as its sender heard it."""

    partition: int
    metadata: RecordMetadata | None = None
    error: BaseException | None = None
    times: int = 0

    def hear(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        self.metadata, self.error = metadata, error
        self.times += 1


class Run:
    """One run: senders of every style, and a gremlin."""

    def __init__(self, brokers: FakeCluster, producer: Producer, random: Random) -> None:
        self.brokers = brokers
        self.producer = producer
        self.random = random
        self.told: dict[bytes, Told] = {}

    async def send(self, number: int) -> None:
        """Send one record in one of the styles, waiting for room if need be."""
        value = b"%d" % number
        told = self.told[value] = Told(self.random.randrange(PARTITIONS))
        style = self.random.choice(["send", "submit", "nowait", "many"])
        size = self.random.choice([0, 0, 10, 200])
        sent: dict[str, Any] = {"partition": told.partition, "headers": [("filler", b"x" * size)]}
        if style == "send":
            self._tasks.create_task(self._await(told, self.producer.send("t", value, **sent)))
        elif style == "many":
            self._tasks.create_task(self._many(told, value, sent))
        else:
            while True:
                try:
                    if style == "submit":
                        future = self.producer.submit("t", value, **sent)
                        self._tasks.create_task(self._await(told, future))
                    else:
                        self.producer.send_nowait("t", value, on_delivery=told.hear, **sent)
                    break
                except BufferFullError:
                    await self.producer.drain()

    async def _await(self, told: Told, sending: Any) -> None:
        try:
            told.hear(await sending, None)
        except AioprodError as error:
            told.hear(None, error)

    async def _many(self, told: Told, value: bytes, sent: dict[str, Any]) -> None:
        result = await self.producer.send_many("t", [value], **sent)
        if result.failures:
            told.hear(None, result.failures[0][1])
        else:
            (offsets,) = result.offsets[TopicPartition("t", told.partition)]
            told.hear(RecordMetadata("t", told.partition, offsets[0], 0), None)

    async def all_records(self) -> None:
        """Send them all, with the loop running in between."""
        async with asyncio.TaskGroup() as self._tasks:
            for number in range(RECORDS):
                await self.send(number)
                if self.random.random() < 0.4:
                    await asyncio.sleep(self.random.choice([0, 0, 0.001, 0.003]))
                if self.random.random() < 0.05:
                    await self.producer.flush()

    async def gremlin(self) -> None:
        """Break something now and then."""
        while True:
            await asyncio.sleep(self.random.choice([0, 0.001, 0.004]))
            match self.random.randrange(6):
                case 0:
                    self.brokers.fault(ProduceRequest, drop=self.random.choice(["before", "after"]))
                case 1 | 2:
                    tp = TopicPartition("t", self.random.randrange(PARTITIONS))
                    code = self.random.choice(ERRORS)
                    stored = code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                    self.brokers.fault(ProduceRequest, error=code, partition=tp, apply=stored)
                case 3:
                    await self.brokers[self.random.randint(1, 3)].cut()
                case 4:
                    tp = TopicPartition("t", self.random.randrange(PARTITIONS))
                    self.brokers.state.move_leader(tp, self.random.choice([1, 2, 3, 3, None]))
                    if self.brokers.state.topics["t"].partitions[tp.partition].leader is None:
                        await asyncio.sleep(0.003)
                        self.brokers.state.move_leader(tp, self.random.randint(1, 3))
                case 5:
                    drop = self.random.choice(["before", "after"])
                    self.brokers.fault(MetadataRequest, drop=drop)


def check(run: Run, brokers: FakeCluster, accepted: list[bytes] | None) -> None:
    """The log agrees with what the senders heard, and with the order in which records were `accepted`."""
    place = {value: number for number, value in enumerate(accepted or ())}
    for index, partition in enumerate(brokers.state.topics["t"].partitions):
        stored = [record.value or b"" for record in partition.records()]
        mine = {value: told for value, told in run.told.items() if told.partition == index}
        assert set(stored) <= set(mine)
        for value, told in mine.items():
            assert told.times == 1, (value, told)
            if told.metadata is not None:
                assert stored[told.metadata.offset] == value
            else:
                assert isinstance(told.error, DeliveryError)
                assert isinstance(told.error, UnknownOutcomeError) or value not in stored, told
        if place:
            places = [place[value] for value in dict.fromkeys(stored)]
            assert places == sorted(places)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("idempotence", [True, False], ids=["one batch", "pipelined"])
async def test_the_log_agrees_with_the_outcomes_of_the_senders(
    three_brokers: FakeCluster, seed: int, idempotence: bool
) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=PARTITIONS)
    random = Random(seed)
    spy = Spy()
    options: dict[str, Any] = {
        "enable_idempotence": idempotence,
        "retries": random.choice([3, 2**31 - 1]),
        "batch_size": random.choice([0, 300, 16_384]),
        "buffer_memory": random.choice([20_000, 32_000_000, 32_000_000]),
        "compression_type": random.choice(["none", "lz4"]),
        "adaptive_linger": random.choice([True, False]),
        "linger_ms": random.choice([0, 1, 5]),
        "interceptors": [spy],
    }
    async with running(brokers, **options) as producer:
        run = Run(brokers, producer, random)
        gremlin = asyncio.create_task(run.gremlin())
        async with asyncio.timeout(40):
            await run.all_records()
        gremlin.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gremlin
        brokers.end_faults()
        for index, partition in enumerate(brokers.state.topics["t"].partitions):
            if partition.leader is None:
                brokers.state.move_leader(TopicPartition("t", index), 1)
        async with asyncio.timeout(10):
            await producer.flush()
        report = await producer.close()
    # Who has to wait for room is accepted later than seen; everybody else at once.
    in_order = idempotence and options["buffer_memory"] > 1_000_000
    check(run, brokers, [record.value for record in spy.sent] if in_order else None)
    errors = [told.error for told in run.told.values() if told.error is not None]
    assert report.delivered == RECORDS - len(errors)
    assert report.not_sent == sum(type(error) is NotSentError for error in errors)
    assert report.rejected == sum(type(error) is RejectedError for error in errors)
    assert len(spy.acknowledged) == RECORDS
