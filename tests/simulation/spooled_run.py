"""`run_spooled_seed`: producers that keep records on disk, die and start again, while brokers fail.

A life is a process: a spooled producer on a simulated disk. It dies at a call of its files or at any time, alone or
with the power: its tasks end where they are, and its connections without another byte. At the end all is well, and what
was kept has to be in Kafka once, as readers of committed records see it.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import uuid
import warnings
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final
from unittest import mock

from aioprod.calls.session import Session
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    ErrorCode,
    InvalidRecordError,
    ProducerClosedError,
    SpoolError,
    UsageError,
)
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from aioprod.producer.batching.partition import Topic
from aioprod.relay import markers
from aioprod.relay.loop import Surroundings
from aioprod.spool import Kept, SpooledProducer
from aioprod.spool.storage import Storage
from aioprod.testing.fake import FakeCluster
from aioprod.testing.simulation import SimulatedLoop, Wire, start
from aioprod.types import RecordMetadata
from tests.simulation.gremlin import Gremlin
from tests.simulation.run import Result
from tests.simulation.spool_run import FailingFiles
from tests.simulation.spooled_checker import Record, SpooledLedger
from tests.simulation.spooled_plan import SpooledPlan
from tests.support.simulated_disk import Disk, SimulatedFiles, storage_of
from tests.support.simulated_process import Process

__all__ = ["run_spooled_seed"]

_NOW_MS: Final = 1_700_000_000_000
_TOGETHER_S: Final = 1800.0
"""Simulated seconds after the last fault in which all has to be in Kafka."""
_VISIBLE_S: Final = 1.0
"""After so long all brokers know that a transaction was committed."""
_ABOUT_MARKERS: Final = (FindCoordinatorRequest, OffsetFetchRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest)


def run_spooled_seed(seed: int, show: Callable[[str], object] | None = None) -> Result:
    """Run one seed; `show` gets each line of the trace."""
    plan, result = SpooledPlan.draw(seed), Result(seed)
    if show is None:
        logging.getLogger("aioprod").setLevel(logging.CRITICAL)  # What fails on purpose are most of the lines.
    names = Random(f"names {seed}")
    gc.disable()
    try:
        with SimulatedLoop(seed) as loop, warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # Of what was killed.
            loop.trace.show = show
            loop.set_exception_handler(lambda _, context: result.problems.append(f"asyncio: {context}"))
            for name, value in plan.network.items():
                setattr(loop.network.conditions, name, value)
            session = partial(Session, clock=loop.time, random=Random(f"sessions {seed}"))
            with (
                mock.patch.object(markers, "Session", session),
                mock.patch.object(uuid, "uuid4", partial(_name, names)),
                mock.patch("aioprod.relay.claim.uuid4", partial(_name, names)),
                mock.patch("secrets.token_urlsafe", lambda size: loop.random.randbytes(size).hex()),
            ):
                run = SpooledRun(plan, loop, result)
                try:
                    loop.run(run.all())
                except Exception as error:
                    result.problems.append(f"{type(error).__name__}: {error}")
                    loop.set_exception_handler(lambda _, context: None)
            result.digest, result.simulated_s = loop.trace.digest, loop.time() - 1000.0
            del run
            gc.collect()
    finally:
        gc.enable()
        logging.getLogger("aioprod").setLevel(logging.NOTSET)
    return result


def _name(random: Random) -> uuid.UUID:
    return uuid.UUID(int=random.getrandbits(128))


class SpooledGremlin(Gremlin):
    """Also breaks what concerns the marker."""

    def _marker_lost(self) -> None:
        drop = self.random.choice(["before", "after", "lurking"])
        self._inject(self.random.choice(_ABOUT_MARKERS), drop=drop, delay_s=self._delay_s())

    def _marker_late(self) -> None:
        self._inject(self.random.choice(_ABOUT_MARKERS), delay_s=self.random.random() * self.random.choice([0.05, 3.0]))

    def _marker_refused(self) -> None:
        code = self.random.choice(
            [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        )
        self._inject(self.random.choice(_ABOUT_MARKERS), error=code, times=self.random.choice([1, 1, 3]))

    def _end_lost(self) -> None:
        drop = self.random.choice(["before", "after"])
        self._inject(EndTxnRequest, drop=drop, delay_s=self._delay_s())


class SpooledRun:
    """One run."""

    def __init__(self, plan: SpooledPlan, loop: SimulatedLoop, result: Result) -> None:
        self.plan = plan
        self.loop = loop
        self.result = result
        self.random = Random(f"spooled {plan.seed}")
        self.disk = Disk(Random(f"disk {plan.seed}"), plan.disk.capacity)
        self.ledger = SpooledLedger()
        self.producer: SpooledProducer | None = None
        self._waiting: list[asyncio.Task[None]] = []
        """Wait for the places of records."""
        self._wires: set[int] = set()
        """The numbers of the connections of earlier lives."""

    @property
    def topics(self) -> dict[str, Topic]:
        """What the present producer of the relay has for each topic; the gremlin looks at it."""
        relay = None if self.producer is None else self.producer._engine.relay
        return {} if relay is None else dict(relay.producer._engine.parts.accumulator.topics)

    async def all(self) -> None:
        """Let processes live and die while brokers fail; then all has to be delivered."""
        plan = self.plan
        async with FakeCluster(plan.brokers, transaction_version=plan.transaction_version, seed=plan.seed) as cluster:
            cluster.state.transactions.marker_delay_s = 0.001
            self.cluster = cluster
            gremlin = SpooledGremlin(plan, self.loop, cluster, self, Random(plan.seed + 1))  # type: ignore[arg-type]
            for name in plan.topics:
                gremlin.create(name)
            breaking = self.loop.create_task(gremlin.run())
            for _ in range(plan.lives):
                await self._live()
                await asyncio.sleep(self.random.random() * self.random.choice([0.01, 1.0, 5.0]))
            breaking.cancel()
            await asyncio.wait([breaking])
            if not breaking.cancelled():
                breaking.result()
            await gremlin.stop()
            self.result.injected += gremlin.injected
            self.disk.capacity = 1 << 40
            await self._last_life()
            await asyncio.sleep(_VISIBLE_S)
            self._check()

    # --- processes

    async def _live(self) -> None:
        """One process, from its start to its end."""
        plan, random = self.plan, self.random
        ends = "close" if random.random() < plan.closes else random.choice(["call", "time"])
        crash_at = random.randint(1, plan.crash_steps) if ends == "call" else None
        files, process = FailingFiles(self.disk, plan.disk, crash_at=crash_at), Process()
        storage = storage_of(files, slow_s=plan.slow_s, on_crash=lambda: self._die(process, files))
        self._wires = {wire.number for wire in self.loop.network.wires}
        killing = self.loop.call_later(random.random() * plan.life_max_s, self._die, process, files)
        self.loop.trace("a process starts:", ends, crash_at or "")
        if ends == "close":
            killing.cancel()
        try:
            await process.run(self._work(storage, closes=ends == "close"))
        except SpoolError as error:
            if not files.failures and not _is_full(error):
                raise
            self.result.outcomes["start failed"] += 1
        finally:
            killing.cancel()
            files.is_dead = True
            files.close()

    def _die(self, process: Process, files: SimulatedFiles) -> None:
        """The process is killed, or the power fails."""
        files.is_dead = True
        files.close()
        for wire in self.loop.network.wires:
            if wire.number not in self._wires:
                self._cut(wire, process)
        process.kill()
        if self.random.random() < self.plan.power_cuts:
            self.result.injected["power cut"] += 1
            self.loop.trace("power cut")
            self.disk.cut_power()
        else:
            self.result.injected["process killed"] += 1
            self.loop.trace("killed")
            self.disk.evict()

    def _cut(self, wire: Wire, process: Process) -> None:
        """The client's side is gone; the broker reads what is on its way, or not even that."""
        error = ConnectionResetError(104, "Connection reset by peer")
        wire.client.drop_arrivals()
        process.context.run(wire.client.lose, error)
        if self.random.random() < 0.5:
            wire.server.drop_arrivals()
            wire.server.lose(error)

    # --- what a process does

    def _new_producer(self) -> SpooledProducer:
        options: dict[str, Any] = self.plan.options | self.plan.spool
        self.producer = SpooledProducer(self.cluster.bootstrap, folder="folder", **options)
        return self.producer

    async def _start(self, producer: SpooledProducer, storage: Storage) -> None:
        surroundings = Surroundings(
            lambda one: start(one, self.loop), self.loop.time, Random(self.loop.random.random())
        )
        await producer._start_in(storage, surroundings)

    async def _work(self, storage: Storage, *, closes: bool) -> None:
        producer = self._new_producer()
        await self._start(producer, storage)
        await asyncio.gather(*(self._send_all(producer) for _ in range(self.plan.senders)))
        if closes:
            await asyncio.sleep(self.random.random() * self.plan.life_max_s)
            report = await producer.close(self.random.choice([0.0, 0.1, 5.0, 60.0]))
            self.loop.trace("closed", report.delivered, report.kept)
        else:
            await asyncio.sleep(self.plan.life_max_s)

    async def _send_all(self, producer: SpooledProducer) -> None:
        for _ in range(self.plan.records):
            if self.plan.pause_max_s:
                await asyncio.sleep(self.random.random() * self.plan.pause_max_s)
            await self._send(producer)

    async def _send(self, producer: SpooledProducer) -> None:
        """One call of one style."""
        random = self.random
        style = random.choice(self.plan.styles)
        topic = random.choice(list(self.plan.topics))
        key = b"%d" % random.randrange(self.plan.keys) if random.random() < 0.8 else None
        partition = random.randrange(self.plan.topics[topic]) if random.random() < 0.2 else None
        several = random.randint(1, 8) if style == "many" else 1
        records = [self.ledger.begin(topic, key, partition) for _ in range(several)]
        values = [
            b"%d:" % record.number + b"%d" % record.number * (random.randint(0, self.plan.size_max) // 3)
            for record in records
        ]
        # The clock that records get their time from is that of the machine.
        options: dict[str, Any] = {"key": key, "partition": partition, "timestamp": _NOW_MS}
        (record, value) = records[0], values[0]
        try:
            if style == "send":
                self._kept(record, await producer.send(topic, value, **options))
            elif style == "submit":
                self._kept(record, await producer.submit(topic, value, **options))
            elif style == "many":
                keys = None if key is None else [key] * several
                await producer.send_many(topic, values, keys=keys, partition=partition, timestamps=_NOW_MS)
                for one in records:
                    self.ledger.keep(one)
            else:
                if style == "callback":
                    options["on_delivery"] = partial(self._delivered, record)
                producer.send_nowait(topic, value, **options)
                if random.random() < 0.3:
                    await producer.drain()
                    if style == "nowait" and producer._engine.store.failure is None and self.disk.room > 1 << 30:
                        self.ledger.keep(record)
        except AioprodError as error:
            self._failed(style, records, error)

    def _kept(self, record: Record, kept: Kept) -> None:
        self.loop.trace("kept", record.number, kept.position)
        self.ledger.keep(record)
        self.result.outcomes["kept"] += 1
        if self.random.random() < 0.5:
            self._waiting.append(asyncio.ensure_future(self._stored(record, kept)))

    async def _stored(self, record: Record, kept: Kept) -> None:
        """Wait for a record to be in Kafka, for as long as the process lives."""
        try:
            record.places.append(await kept.stored())
        except AioprodError as error:
            self.result.outcomes[f"stored: {type(error).__name__}"] += 1
        else:
            self.result.outcomes["stored"] += 1

    def _delivered(self, record: Record, place: RecordMetadata | None, error: AioprodError | None) -> None:
        if place is not None:
            record.places.append(place)
            self.result.outcomes["called back"] += 1
        elif error is not None:
            self._failed("callback", [record], error)

    def _failed(self, style: str, records: list[Record], error: AioprodError) -> None:
        self.loop.trace(style, "failed", type(error).__name__, records[0].number)
        self.result.outcomes[type(error).__name__] += len(records)
        if not isinstance(error, (BufferFullError, InvalidRecordError, ProducerClosedError, SpoolError, UsageError)):
            raise error
        # Of many records, earlier ones may have been kept.
        if not error.may_be_stored and len(records) == 1:
            records[0].is_refused = True

    # --- the end

    async def _last_life(self) -> None:
        """Without faults: all that is kept comes to Kafka, and new records do."""
        producer = self._new_producer()
        self.loop.trace("the last process starts")
        await self._start(producer, storage_of(SimulatedFiles(self.disk)))
        self.plan.styles = ("send",)
        await self._send(producer)
        await producer.flush(_TOGETHER_S)
        waiting = asyncio.all_tasks()
        await self._send(producer)
        await producer.flush(_TOGETHER_S)
        report = await producer.close()
        if report.kept:
            self.result.problems.append(f"after a flush {report.kept} records are kept")
        stuck = [task for task in asyncio.all_tasks() - waiting if task is not asyncio.current_task()]
        if stuck:
            self.result.problems.append(f"tasks are left: {stuck[:3]}")

    def _check(self) -> None:
        logs = {
            (topic.name, index): {
                record.offset: int((record.value or b"").partition(b":")[0])
                for record in partition.records("read_committed")
            }
            for topic in self.cluster.topics.values()
            for index, partition in enumerate(topic.partitions)
        }
        self.result.problems += self.ledger.check(logs)
        self.result.outcomes["delivered"] = sum(map(len, logs.values()))


def _is_full(error: AioprodError) -> bool:
    """Whether a full disk is the reason."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOSPC
