"""`run_seed`: one seed from start to end.

Sends records while faults are injected, ends the faults, checks that every partition accepts records again, closes the
producer, and checks the guarantees.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self
from unittest import mock

from aioprod import Producer
from aioprod.errors import ErrorCode, StillUnknownError, UnknownOutcomeError
from aioprod.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from aioprod.producer.transactions.states import TransactionState
from aioprod.records.layout import HEADER, PRODUCER_EPOCH, RECORD_COUNT
from aioprod.records.parser import parse_batches
from aioprod.testing.fake import FakeCluster
from aioprod.testing.fake.handlers.table import HANDLERS
from aioprod.testing.fake.state.transactions import State
from aioprod.testing.simulation import SimulatedLoop, start
from aioprod.types import DeliveryReport
from tests.simulation.checker import Evidence, check
from tests.simulation.comments import commenting
from tests.simulation.gremlin import Gremlin
from tests.simulation.ledger import Entry, Ledger
from tests.simulation.plan import Plan
from tests.simulation.transactor import Transactor
from tests.simulation.work import Work

__all__ = ["Result", "run_seed"]

ADDS = HANDLERS[AddPartitionsToTxnRequest]
ENDS = HANDLERS[EndTxnRequest]
INITIALIZES = HANDLERS[InitProducerIdRequest]
MAY_ADD = (TransactionState.IN_TRANSACTION, TransactionState.FLUSHING)
FIRST_WITH_EPOCHS = 5
"""The version of EndTxn in which each transaction has its own epoch."""
ROUNDS_MAX = 8
"""How many times a record may still fail after the faults before its partition counts as stuck."""
CALM_S = 60.0
"""Long enough that everything sent before has arrived."""
RESOLVED_S = 10.0
"""The time to find out about one record."""
FOUND_S = 2.0
"""The producer finds a topic that was created later within this time; until then it caches that it does not exist."""
CLOSE_LATE_S = 0.5
MARKER_DELAY_S = 0.001
"""As with real brokers, the previous transaction may not be complete when the next one begins."""


@dataclass
class Result:
    """The result of one seed: `problems` is empty if every guarantee was kept."""

    seed: int
    problems: list[str] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    simulated_s: float = 0.0


def run_seed(seed: int, show: Callable[[str], object] | None = None) -> Result:
    """Run one seed; `show` gets each line of the trace."""
    plan = Plan.draw(seed)
    result = Result(seed)
    logged = _LoggedErrors(result.problems)
    gc.disable()
    try:
        with SimulatedLoop(seed) as loop, logged:
            loop.trace.show = show
            loop.set_exception_handler(lambda _, context: result.problems.append(f"asyncio: {_described(context)}"))
            for name, value in plan.network.items():
                setattr(loop.network.conditions, name, value)
            run = Run(plan, loop, result)
            try:
                with (
                    mock.patch.dict(
                        HANDLERS,
                        {
                            EndTxnRequest: run.end_transaction,
                            InitProducerIdRequest: run.initialize,
                            AddPartitionsToTxnRequest: run.add_partitions,
                        },
                    ),
                    mock.patch("secrets.token_urlsafe", lambda size: loop.random.randbytes(size).hex()),
                    commenting(loop.trace),
                ):
                    loop.run(run.all())
            except Exception as error:
                result.problems.append(f"{type(error).__name__}: {error}\n{run.picture()}")
                if show is not None:
                    logging.getLogger("simulation").exception("The run failed")
                # Errors of the tasks that are left are consequences.
                loop.set_exception_handler(lambda _, context: None)
            result.digest, result.simulated_s = loop.trace.digest, loop.time() - 1000.0
            del run
            gc.collect()
    finally:
        gc.enable()
    return result


class Run:
    """One run and its parts."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, result: Result) -> None:
        self.plan = plan
        self.loop = loop
        self.result = result
        self.ledger = Ledger(loop.time)
        self.report: DeliveryReport | None = None
        self.producer: Producer | None = None
        self.transactor: Transactor | None = None
        self.bumps: int | None = None
        self.begun_late = -1

    def end_transaction(self, call: Any, request: EndTxnRequest) -> Any:
        """Handle EndTxn, and note in the ledger if a late request of an earlier transaction commits the open one."""
        answer = ENDS(call, request)
        if request.committed and call.version < FIRST_WITH_EPOCHS and answer.error_code == ErrorCode.NONE:
            self.ledger.overtake()
        return answer

    def initialize(self, call: Any, request: InitProducerIdRequest) -> Any:
        """Handle InitProducerId, and note in the ledger if a late copy of it fences its own sender."""
        known = call.state.transactions.get(request.transactional_id)
        is_late = (
            known is not None
            and known.state is State.ONGOING
            and (0 <= request.producer_epoch < known.epoch or known.number == self.begun_late)
        )
        answer = INITIALIZES(call, request)
        if is_late and known.state is not State.ONGOING:
            self.ledger.fenced_itself = True
        return answer

    def add_partitions(self, call: Any, request: AddPartitionsToTxnRequest) -> Any:
        """Handle AddPartitionsToTxn, and note if a late copy of it begins a transaction unknown to its sender."""
        known = call.state.transactions[request.v3_and_below_transactional_id]
        began = known.number
        answer = ADDS(call, request)
        sender = None if self.producer is None else self.producer._engine.transactions
        if known.number != began and sender is not None and sender.state not in MAY_ADD:
            self.begun_late = known.number
        return answer

    async def all(self) -> None:
        """Run the seed: start, send during faults, recover, close, check."""
        plan, loop, ledger = self.plan, self.loop, self.ledger
        async with FakeCluster(
            plan.brokers,
            transaction_version=plan.transaction_version or 2,
            seed=plan.seed,
            security=plan.security(),
        ) as cluster:
            cluster.state.auto_create = not plan.created_late
            cluster.state.transactions.marker_delay_s = MARKER_DELAY_S
            # A producer sees added partitions only after metadata.max.age.ms, so auto-creation makes enough of them.
            cluster.state.default_partitions = max(plan.topics.values())
            before = asyncio.all_tasks()
            on_error = ledger.report if plan.has_on_error else None
            producer = self.producer = Producer(cluster.bootstrap, on_error=on_error, **plan.options)
            await start(producer, loop, pauses=plan.clock_pauses, inline_size=plan.inline_size)
            gremlin = Gremlin(plan, loop, cluster, producer._engine.parts.accumulator, Random(plan.seed + 1))
            work = Work(plan, producer, ledger, Random(plan.seed + 2))
            if not plan.created_late:
                for name in plan.topics:
                    gremlin.create(name)
                if plan.near_the_end and plan.idempotent:
                    await self._approach_the_limits(producer, cluster, work)
            breaking = loop.create_task(gremlin.run())
            creating = loop.create_task(self._create_late(gremlin))
            if plan.transaction_version:
                self.transactor = Transactor(work, producer, ledger, Random(plan.seed + 3))
                await self.transactor.run(plan.records)
            else:
                await work.run()
            await asyncio.wait([creating])
            await self._end(producer, work, gremlin, breaking)
            self.result.injected += gremlin.injected
            await self._check(producer, cluster, work, gremlin, before)

    async def _create_late(self, gremlin: Gremlin) -> None:
        if self.plan.created_late:
            await asyncio.sleep(self.loop.random.random())
            for name in self.plan.topics:
                gremlin.create(name)

    async def _approach_the_limits(self, producer: Producer, cluster: FakeCluster, work: Work) -> None:
        """Set sequence numbers and epochs close to their maximum, as after years of writing."""
        for topic, count in self.plan.topics.items():
            for index in range(count):
                await work.send(self.ledger.begin(topic, index, "send"))
        last = 2**31 - 1 - self.loop.random.randrange(30)
        epoch = self.loop.random.choice([0, 32765, 32766, 32767])
        for name, known in producer._engine.parts.accumulator.topics.items():
            for ours, theirs in zip(known.partitions, cluster.topics[name].partitions, strict=True):
                if theirs.producers.pop(ours.producer_id, None) is None:
                    continue
                ours.next_sequence, ours.epoch = last + 1 & 0x7FFFFFFF, epoch
                # A leader that reads its log again has to find the same there.
                (stored,) = theirs.log
                stamp = struct.pack(">hi", epoch, last)
                data = stored.data[:PRODUCER_EPOCH] + stamp + stored.data[RECORD_COUNT:]
                (batch,) = parse_batches(data, verify_crc=False)
                theirs.log[0] = stored._replace(batch=batch)
                theirs.producers.of(ours.producer_id).append(batch, batch.base_offset)

    # --- the end

    async def _end(self, producer: Producer, work: Work, gremlin: Gremlin, breaking: asyncio.Task[None]) -> None:
        ending = self.plan.ending
        self.ledger.closing_s = self.loop.time() if ending != "flush" else math.inf
        if ending == "close at once":
            await self._close(producer, self.plan.close_timeout_s)
        elif ending == "cancelled close":
            await self._cancelled_close(producer)
        breaking.cancel()
        await asyncio.wait([breaking])
        if not breaking.cancelled():
            breaking.result()
        await gremlin.stop()
        if ending == "flush":
            await self._check_recovery(producer, work, gremlin)
            await self._resolve(producer)
        if ending in ("flush", "close"):
            await self._close(producer, None)
        self.report = await producer.close()
        await work.wait_for_tasks()

    async def _close(self, producer: Producer, timeout: float | None) -> None:
        start_s = self.loop.time()
        await producer.close(timeout)
        took_s = self.loop.time() - start_s
        limit_s = self.plan.delivery_timeout_s + 1.5 if timeout is None else timeout
        if took_s > limit_s + CLOSE_LATE_S:
            self.result.problems.append(f"close(timeout={timeout}) took {took_s:.2f} s.")

    async def _cancelled_close(self, producer: Producer) -> None:
        closing = self.loop.create_task(producer.close())
        timer = self.loop.call_later(self.plan.close_timeout_s, closing.cancel)
        await asyncio.wait([closing])
        timer.cancel()

    async def _check_recovery(self, producer: Producer, work: Work, gremlin: Gremlin) -> None:
        """After the faults: buffered records get their outcome, and every partition accepts new ones."""
        await self._flush(producer, work)
        self.plan.size_max = 0
        if self.transactor is not None:
            await self._commit_one(self.transactor)
            return
        await self._until_all_accept(producer, work, ROUNDS_MAX)
        if self.plan.calm:
            await asyncio.sleep(CALM_S)
            self.bumps = self._bumps(producer)
            self.ledger.forgotten_s = self.loop.time()
            for number in gremlin.lose_state():
                self.ledger.entries[number].lost = True
            options = self.plan.options
            # Idle connections may have died meanwhile: detecting that and a retry take time.
            has_time = options["delivery_timeout_ms"] >= 3 * options["request_timeout_ms"] + 5000
            await self._until_all_accept(producer, work, 1 if has_time else 3)

    async def _resolve(self, producer: Producer) -> None:
        """Find out about records with an unknown outcome: each partition has got a later one."""
        if producer._engine.guard.cause is not None:
            return
        for entry in self.ledger.entries:
            error = entry.final_error
            if isinstance(error, UnknownOutcomeError):
                try:
                    entry.resolved = await producer.resolve(error, RESOLVED_S) or False
                except StillUnknownError as still:
                    self.result.outcomes[f"still unknown: {still.reason}"] += 1
                else:
                    self.result.outcomes["resolved, stored" if entry.resolved else "resolved, not stored"] += 1

    async def _until_all_accept(self, producer: Producer, work: Work, rounds: int) -> None:
        """Send to each partition until its records are delivered, in at most so many rounds.

        One more round is allowed where responses were lost: a leader that has lost the producer's state can't recognize
        duplicates, so the outcome of the records is unknown.
        """
        waiting = [(topic, index) for topic, count in self.plan.topics.items() for index in range(count)]
        entries: list[Entry] = []
        for number in range(rounds + 1):
            if number:
                await asyncio.sleep(FOUND_S)
            failed = [entry.final_error for entry in entries if entry.metadata is None]
            if number == rounds and not all(isinstance(error, UnknownOutcomeError) for error in failed):
                break
            entries = [self.ledger.begin(topic, index, "submit") for topic, index in waiting for _ in range(2)]
            for entry in entries:
                work.spawn(work.send(entry))
            await asyncio.sleep(0)
            await self._flush(producer, work)
            await work.wait_for_tasks()
            waiting = list(dict.fromkeys((e.topic, e.partition or 0) for e in entries if e.metadata is None))
            if not waiting:
                return
        last = {entry.final_error or entry.send_error for entry in entries}
        self.result.problems.append(f"After the faults {waiting} still accept no records: {last}")

    async def _commit_one(self, transactor: Transactor) -> None:
        """After the faults: a transaction can be committed, unless the producer was fenced or could not log in."""
        for _ in range(ROUNDS_MAX):
            if transactor.is_over and (self.ledger.fenced or self.plan.may_be_fenced or transactor.login_failed):
                return
            transaction = await transactor.one(3, wants_commit=True)
            if transaction is not None and transaction.outcome == "committed":
                return
        last = [transaction.errors for transaction in self.ledger.transactions[-2:]]
        self.result.problems.append(f"After the faults still no transaction is committed: {last}")

    async def _flush(self, producer: Producer, work: Work) -> None:
        before = [entry for entry in self.ledger.entries if entry.accepted is not None]
        await producer.flush()
        await work.check_flushed(before)

    # --- the check

    async def _check(
        self, producer: Producer, cluster: FakeCluster, work: Work, gremlin: Gremlin, before: set[asyncio.Task[Any]]
    ) -> None:
        problems = self.result.problems
        problems += (f"A sender failed: {error!r}" for error in work.failures)
        if producer.buffered != (0, 0):
            problems.append(f"buffered is {producer.buffered} after close.")
        if producer._engine.guard.cause is not None:
            problems.append(f"The producer has failed: {producer._engine.guard.cause!r}")
        await asyncio.sleep(0.1)
        left = [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)]
        if left:
            problems.append(f"Tasks are still running: {left}")
        if cluster.errors:
            problems.append(f"The fake broker: {cluster.errors}")
        problems += check(self.plan, self.ledger, self._evidence(producer, gremlin))
        problems += _too_large(cluster, self.plan.options["batch_size_max"])
        for entry in self.ledger.entries:
            self.result.outcomes[entry.outcome] += 1
        if self.plan.resolves:
            metrics = producer.metrics()
            for what in ("resolved_stored_total", "resolved_absent_total", "unresolved_total"):
                self.result.outcomes[f"resolve.unknown.outcomes: {what}"] += int(metrics[what])

    def _evidence(self, producer: Producer, gremlin: Gremlin) -> Evidence:
        bumps = self._bumps(producer) if self.bumps is None else self.bumps
        return Evidence(gremlin.logs(), gremlin.logs("read_committed"), self.report, bumps, gremlin.codes)

    def _bumps(self, producer: Producer) -> int:
        sequences = producer._engine.parts.accumulator.sequences
        return 0 if sequences is None else sequences.bumps

    def picture(self) -> str:
        """The running tasks and the producer's buffered records, for the report of a failed run."""
        lines = [f"  {task!r}" for task in asyncio.all_tasks(self.loop)]
        if self.producer is not None:
            lines.append(f"  {self.producer.buffered}")
        return "\n".join(lines)


def _too_large(cluster: FakeCluster, size_max: int) -> Iterable[str]:
    """Batches of several records that are larger than they may grow."""
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            for stored in partition.log:
                batch = stored.batch
                if batch.count > 1 and batch.size > max(size_max, HEADER):
                    yield f"A batch of {batch.count} records has {batch.size} bytes, more than {size_max}."


class _LoggedErrors(logging.Handler, contextlib.AbstractContextManager[Any]):
    """Adds errors that are logged to the problems."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems
        self._loggers = [logging.getLogger("aioprod"), logging.getLogger("asyncio")]

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None and record.getMessage().startswith("The producer has failed"):
            return  # Brokers have fenced it, which is an outcome; after a bug the line has its traceback.
        self._problems.append(f"Logged: {record.getMessage()} {error!r}")

    def __enter__(self) -> Self:
        for logger in self._loggers:
            logger.addHandler(self)
            logger.propagate = False
            logger.setLevel(logging.ERROR)
        return self

    def __exit__(self, *error: object) -> None:
        for logger in self._loggers:
            logger.removeHandler(self)
            logger.propagate = True
            logger.setLevel(logging.NOTSET)


def _described(context: dict[str, Any]) -> str:
    return f"{context.get('message')} {context.get('exception')!r}"
