"""The transactions of one producer (KIP-98, KIP-360, KIP-890).

1. `initialize` gets producer id and epoch (InitProducerId); brokers fence producers with an older epoch.
2. `begin` sends nothing. Before a partition's first batch `join` adds the partition (AddPartitionsToTxn); from
   transaction.version 2 on ("implicit") the Produce request itself does.
3. `send_offsets` adds the group (AddOffsetsToTxn, if not implicit) and sends its offsets (TxnOffsetCommit).
4. `commit` flushes, then sends EndTxn; `abort` fails what is unsent, waits for what is in flight, then sends EndTxn.
   Both continue in the background when their caller is cancelled or times out.
5. The epoch rises with each end if implicit, else only when batches were lost (InitProducerId).

The table in `states.py` says which call or event is allowed in which state. An error that spoils only the
transaction leads to ABORTABLE_ERROR (`fail`), one that ends the producer to FATAL_ERROR (`_fail_producer`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from aioprod._error_codes import ErrorCode
from aioprod.config import ProducerConfig
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    FlushTimeoutError,
    ProducerClosedError,
    RequestTimedOutError,
    TransactionAbortedError,
    UsageError,
)
from aioprod.net.tasks import Supervisor
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition
from aioprod.producer.guard import Guard
from aioprod.producer.pipeline import Pipeline
from aioprod.producer.transactions.codes import FATAL_FOR_RECORDS, Meaning, Step
from aioprod.producer.transactions.effects import Effects
from aioprod.producer.transactions.open_transaction import FIRST_IMPLICIT, OpenTransaction, TransactionEnd
from aioprod.producer.transactions.requests import CoordinatorRequests, Offsets, ProducerIdentity, Rejected
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.producer.transactions.states import TRANSITIONS, TransactionEvent, TransactionState, error_for, obstacle
from aioprod.types import GroupMetadata, TopicPartition

__all__ = ["TransactionManager"]

PATIENCE_S: Final = 30.0
"""How long a request in the background is retried before its deadline is renewed."""

S = TransactionState
E = TransactionEvent


class TransactionManager(TransactionRules):
    """Runs the calls: one request to a coordinator at a time, every call within `max.block.ms`.

    A commit or an abort that was sent continues in the background when its caller is cancelled or times out. It is the
    `TransactionRules` of the producer's other parts; so it is made before them, and gets them from `act_on`.
    """

    _effects: Effects
    _coordination: CoordinatorRequests
    _tasks: Supervisor

    def __init__(self, config: ProducerConfig, on_failure: Callable[[BaseException], object]) -> None:
        self.state = S.UNINITIALIZED
        self.error: AioprodError | None = None
        """Why the transaction, or the producer, has failed."""
        self._config = config
        self._on_failure = on_failure
        """Called with an unexpected exception of a background task."""
        self._max_block_s = config.max_block_ms / 1000
        self._request_lock = asyncio.Lock()
        self._state_changed = asyncio.Event()
        self._identity = ProducerIdentity()
        self._transaction = OpenTransaction(implicit=False)
        self._joining: dict[Partition, None] = {}
        self._is_adding = False
        self._end: TransactionEnd | None = None

    def act_on(self, parts: Pipeline, guard: Guard, flush: Callable[[float | None], Coroutine[Any, Any, None]]) -> None:
        """Take the parts of the producer, which exist from its start on; `flush` waits for all records."""
        name = self._config.transactional_id
        assert name is not None
        self._effects = Effects(parts, guard, flush)
        self._coordination = CoordinatorRequests(
            parts.client, name, self._config.transaction_timeout_ms, parts.environment.random
        )
        self._tasks = Supervisor(parts.loop, self._on_failure)

    @property
    def fatal_error(self) -> AioprodError | None:
        """Why the producer can't continue, such as that another one has fenced it; None while it can."""
        return self.error if self.state is S.FATAL_ERROR else None

    # --- the table

    def call_error(self, call: TransactionEvent) -> AioprodError | None:
        """The error that the call raises in the present state, None if it is allowed."""
        return error_for(self.state, call, self.error)

    def _advance(self, event: TransactionEvent) -> None:
        """Enter the state to which the event leads; raises if it is a call that is not allowed."""
        error = self.call_error(event)
        if error is not None:
            raise error
        self.state = TRANSITIONS[self.state, event]
        self._effects.admit(self.state is S.IN_TRANSACTION)
        self._state_changed.set()
        self._state_changed.clear()

    # --- calls

    async def initialize(self, timeout_s: float | None = None) -> None:
        """Get a producer id, fencing older producers of this transactional id; does nothing if there is one already."""
        if self.state in (S.UNINITIALIZED, S.INITIALIZING, S.FATAL_ERROR):
            await self._initialize(E.INITIALIZE, timeout_s)

    async def _initialize(self, call: TransactionEvent, timeout_s: float | None = None) -> None:
        has_ended = self.state is S.READY
        self._advance(E.INITIALIZE)
        try:
            async with self._requesting(call, timeout_s) as deadline:
                identity = await self._coordination.initialize(self._identity, deadline, has_ended=has_ended)
                self._set_identity(identity)
            self._advance(E.INITIALIZED)
        except Rejected as rejected:
            if rejected.meaning is Meaning.FENCED:
                self._fail_producer(rejected.error)
            raise rejected.error from None
        finally:
            if self.state is S.INITIALIZING:
                self._advance(E.NOT_INITIALIZED)

    async def begin(self) -> None:
        """Begin a transaction, after the abort of the one before if that still runs."""
        if self.state is S.ABORTING:
            await self._ended()
        implicit = self._effects.transaction_version() >= FIRST_IMPLICIT
        is_unsafe = not self._transaction.implicit and (implicit or self._coordination.may_be_known)
        if self._end is not None and (self.state is S.UNINITIALIZED or (self.state is S.READY and is_unsafe)):
            # A delayed request of the one before, EndTxn above all, has the same epoch and would act on this one.
            await self._initialize(E.BEGIN)
        self._advance(E.BEGIN)
        self._transaction = OpenTransaction(implicit)
        self._effects.begin(implicit)

    async def commit(self) -> None:
        """Wait for all records, then commit; joins a commit whose caller was cancelled or timed out."""
        if self.state not in (S.COMMITTING, S.COMMITTED):
            self._advance(E.COMMIT)
            try:
                await self._effects.flush(self._max_block_s)
            except BaseException as error:
                if self.state is S.FLUSHING:
                    self._advance(E.WITHDRAWN)
                if isinstance(error, FlushTimeoutError):
                    # The transaction is open, so readers with read_committed see none of it.
                    error.may_be_stored = False
                raise
            if self.state is not S.FLUSHING:
                raise self.call_error(E.COMMIT) or UsageError("The producer was closed while it committed.")
            self._advance(E.FLUSHED)
            self._end_in_background(E.COMMIT, self._commit())
        await self._ended()
        if self.state is S.COMMITTED:
            self._advance(E.RETURNED)

    async def abort(self) -> None:
        """Fail unsent records, wait for the batches in flight, then abort; joins an abort that already runs."""
        if self.state is not S.ABORTING:
            self._advance(E.ABORT)
            aborted = TransactionAbortedError("The transaction was aborted.", on_purpose=self.error is None)
            aborted.__cause__ = self.error
            self._effects.fail_unsent("the transaction was aborted.", aborted)
            self._end_in_background(E.ABORT, self._abort())
        await self._ended()

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Send a group's offsets, to be committed with the transaction; an error or cancellation fails it."""
        self._advance(E.SEND_OFFSETS)
        present = self._transaction
        async with self._requesting(E.SEND_OFFSETS) as deadline:
            if present is not self._transaction:
                raise UsageError("The transaction has ended before the offsets were sent.")
            self._advance(E.SEND_OFFSETS)
            try:
                await self._send_offsets(present, offsets, group, deadline)
            except Rejected as rejected:
                self._fail_after(rejected)
                error = self._error_for_caller(rejected, E.SEND_OFFSETS)
                raise error from error.__cause__
            except BaseException as unknown:
                text = f"Whether the offsets of group {group.group_id!r} are in the transaction is not known."
                self.fail(unknown if isinstance(unknown, AioprodError) else TransactionAbortedError(text))
                raise

    async def _send_offsets(
        self, present: OpenTransaction, offsets: Offsets, group: GroupMetadata, deadline: float
    ) -> None:
        if not present.implicit:
            present.may_be_known = True
            await self._coordination.add_offsets(self._identity, group.group_id, deadline)
            present.may_be_known = False
        # If implicit the request itself adds the group: from here on there is a transaction to end.
        present.is_known = True
        await self._coordination.commit_offsets(self._identity, offsets, group, deadline, adds=present.implicit)

    @property
    def is_aborted(self) -> bool:
        """Whether the last abort was carried out, even if the producer has failed since."""
        return self._end is not None and self._end.call is E.ABORT and self._end.is_acknowledged

    # --- the end of a transaction, in the background

    def _end_in_background(self, call: TransactionEvent, work: Coroutine[Any, Any, None]) -> None:
        self._end = TransactionEnd(call, self._tasks.spawn(work, name=f"aioprod {call.value}"))

    async def _ended(self) -> None:
        """Wait for the commit or abort in the background; raises its error, or RequestTimedOutError."""
        end = self._end
        assert end is not None
        done, _ = await asyncio.wait([end.task], timeout=self._max_block_s)
        if not done:
            raise end.with_outcome_unknown(self._timeout_error(end.call))
        if end.task.cancelled():
            text = f"The producer was closed before {end.call.value} had ended."
            raise end.with_outcome_unknown(ProducerClosedError(text))
        if (unexpected := end.task.exception()) is not None:
            text = f"{end.call.value} failed with an unexpected error: {unexpected!r}."
            raise end.with_outcome_unknown(AioprodError(text)) from unexpected
        if end.error is not None:
            raise end.error.again()

    async def _commit(self) -> None:
        """Commit what the coordinator knows of; a transaction without records and offsets needs no request."""
        async with self._request_lock:
            self._release_joining()
            if self.state is not S.COMMITTING:
                # A coordinator has rejected another request meanwhile.
                assert self._end is not None
                self._end.error = self.call_error(E.COMMIT)
                return
            if await self._retry(Step.COMMIT):
                self._advance(E.ENDED)

    async def _abort(self) -> None:
        """Abort when no batch of the transaction is in flight any more."""
        await self._effects.flush(None)
        async with self._request_lock:
            # The answer to a batch in flight may have said that the producer is fenced.
            ended = self.state is S.ABORTING
            for step in self._steps_to_abort(self._transaction):
                ended = ended and await self._retry(step)
            self._release_joining()
            if ended:
                self.error = None
                self._effects.aborted(self._identity, implicit=self._transaction.implicit)
                self._advance(E.ENDED)

    def _steps_to_abort(self, present: OpenTransaction) -> tuple[Step, ...]:
        """Abort; then get a new epoch if sequence numbers have a gap or a delayed request may still add to it."""
        if present.implicit or not (self._effects.has_gap or present.may_be_known):
            return (Step.ABORT,)
        # The markers of an abort have the epoch of the transaction, so that a delayed batch could be appended after
        # them. InitProducerId without a producer id writes them with a later epoch, which fences such a batch.
        present.is_replaced = present.is_known and self._coordination.is_old
        return (Step.INITIALIZE,) if present.is_replaced else (Step.ABORT, Step.INITIALIZE)

    async def _retry(self, step: Step) -> bool:
        """Retry a step of the end until it is answered; returns False if the transaction or the producer failed."""
        assert self._end is not None
        try:
            while True:
                try:
                    self._set_identity(await self._request(step))
                    self._end.is_acknowledged = True
                    return True
                except RequestTimedOutError:
                    continue
        except Rejected as rejected:
            self._fail_after(rejected)
            self._end.error = self._error_for_caller(rejected, self._end.call)
        except AioprodError as error:
            self._fail_producer(self._end.with_outcome_unknown(error))
        return False

    async def _request(self, step: Step) -> ProducerIdentity:
        present, deadline = self._transaction, self._effects.now() + PATIENCE_S
        if step is Step.INITIALIZE:
            return await self._coordination.initialize(self._identity, deadline, is_open=present.is_replaced)
        is_known = present.is_known or self._effects.has_sent
        if not is_known and not present.may_be_known:
            return self._identity
        commits, raises_epoch = step is Step.COMMIT, present.implicit
        return await self._coordination.end(
            self._identity, deadline, committed=commits, raises_epoch=raises_epoch, is_known=is_known
        )

    async def close(self) -> None:
        """Abort an open transaction, or wait for the commit or abort that runs; the caller limits the time."""
        while self.state is S.FLUSHING:
            await self._state_changed.wait()
        if self.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            await self.abort()
        elif self.state in (S.COMMITTING, S.ABORTING):
            await self._ended()

    async def stop(self) -> None:
        """Cancel the background tasks."""
        await self._tasks.close()

    # --- partitions

    def join(self, partition: Partition) -> bool:
        """Whether a partition may send its first batch in this transaction.

        If not, the partition is suspended until the coordinator has added it.
        """
        if self.state in (S.IN_TRANSACTION, S.FLUSHING):
            if self._transaction.implicit:
                return True
            if not self._is_adding:
                self._is_adding = True
                self._tasks.spawn(self._add(), name="aioprod AddPartitionsToTxn")
        self._joining[partition] = None
        return False

    async def _add(self) -> None:
        """Add all partitions that wait for it in one request, then those that came meanwhile."""
        try:
            async with self._request_lock:
                while self._joining and self.state in (S.IN_TRANSACTION, S.FLUSHING):
                    await self._add_joining(list(self._joining))
        finally:
            self._is_adding = False

    async def _add_joining(self, partitions: list[Partition]) -> None:
        names = [TopicPartition(partition.topic.name, partition.index) for partition in partitions]
        self._transaction.may_be_known = True
        try:
            await self._coordination.add_partitions(self._identity, names, self._effects.now() + PATIENCE_S)
        except RequestTimedOutError:
            return
        except Rejected as rejected:
            self._transaction.may_be_known = False
            self._fail_after(rejected)
        except AioprodError as error:
            self._fail_producer(error)
        else:
            self._transaction.may_be_known = False
            self._transaction.is_known = True
            for partition in partitions:
                self._joining.pop(partition, None)
                self._effects.release(partition, is_member=True)

    def explain(self, partition: Partition) -> str | None:
        """How the transaction keeps a partition from sending, in a sentence; None if it does not."""
        if partition.suspended and partition.unknown_serial < 0 and partition.gap_from < 0:
            return "It waits until the coordinator has added the partition to the transaction."
        return obstacle(self.state, self.error)

    def join_pause_s(self, failures: int) -> float:
        """Seconds until a batch is retried that could not be added to the transaction, `failures` times before."""
        return self._coordination.join_pause_s(failures)

    def _release_joining(self) -> None:
        """Release the partitions that were not added: the transaction ends."""
        for partition in self._joining:
            self._effects.release(partition, is_member=False)
        self._joining.clear()

    # --- failures

    def error_of(self, code: ErrorCode | int, message: str) -> AioprodError | None:
        """The error for a Produce error code that concerns the transactional id; None for other codes."""
        return self._coordination.cause_of(code, message)

    def batch_failed(self, batch: Batch, message: str) -> None:
        """A batch of the transaction was not delivered, for the reason in `message`."""
        error = TransactionAbortedError(message)
        error.__cause__ = batch.cause
        if batch.code in FATAL_FOR_RECORDS:
            self._fail_producer(batch.cause if isinstance(batch.cause, AioprodError) else error)
        else:
            self.fail(error)

    def _fail_after(self, rejected: Rejected) -> None:
        """Fail the transaction, or the producer, after a coordinator has rejected a request."""
        if rejected.meaning is Meaning.FAILED:
            self.fail(rejected.error)
        else:
            self._fail_producer(rejected.error)

    def _error_for_caller(self, rejected: Rejected, call: TransactionEvent) -> AioprodError:
        """The error that the call raises whose request was rejected."""
        failed = rejected.meaning is Meaning.FAILED and not isinstance(rejected.error, AuthorizationError)
        return (self.call_error(call) if failed else None) or rejected.error.again()

    def fail(self, error: AioprodError) -> None:
        """Fail the transaction, so that it can only be aborted; does nothing if it is ending already."""
        if (self.state, E.FAILED) not in TRANSITIONS:
            return
        is_news = self.state not in (S.ABORTABLE_ERROR, S.ABORTING, S.FATAL_ERROR)
        self._advance(E.FAILED)
        if is_news:
            self.error = error
            aborted = TransactionAbortedError(f"The transaction has failed: {error.message}", hint=error.hint)
            aborted.__cause__ = error
            self._effects.fail_unsent("the transaction has failed.", aborted)

    def _fail_producer(self, error: AioprodError) -> None:
        """Fail the producer: it can't continue."""
        if self.state is not S.FATAL_ERROR:
            self.error = error
            self._advance(E.BROKEN)
            if self._end is not None and not self._end.task.done():
                self._end.error = error
            self._effects.fail_producer(error)

    # --- small things

    def _set_identity(self, identity: ProducerIdentity) -> None:
        if identity != self._identity:
            self._identity = identity
            self._effects.set_producer_id(identity)

    @contextlib.asynccontextmanager
    async def _requesting(self, call: TransactionEvent, timeout_s: float | None = None) -> AsyncIterator[float]:
        """Hold the request lock; yields the deadline of the call, in monotonic seconds."""
        limit_s = self._max_block_s if timeout_s is None else timeout_s
        deadline = self._effects.now() + limit_s
        try:
            async with asyncio.timeout(limit_s):
                await self._request_lock.acquire()
        except TimeoutError as error:
            raise self._timeout_error(call) from error
        try:
            yield deadline
        finally:
            self._request_lock.release()

    def _timeout_error(self, call: TransactionEvent) -> RequestTimedOutError:
        continues = self.state in (S.COMMITTING, S.ABORTING)
        advice = " It continues in the background: call it again for its outcome." if continues else ""
        return RequestTimedOutError(
            f"{call.value} was not done within max.block.ms={round(self._max_block_s * 1000)}.{advice}",
            hint="Check that the brokers can be reached, and that enough replicas are in sync.",
        )
