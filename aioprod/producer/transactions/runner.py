"""The transactions of one producer: does what the table in `core/transactions.py` allows, and tells who asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioprod._error_codes import ErrorCode
from aioprod.core.batch import Batch
from aioprod.core.partition import Partition
from aioprod.core.transaction_codes import FATAL_FOR_RECORDS, Meaning, Step
from aioprod.core.transactions import TRANSITIONS, TransactionEvent, TransactionState, error_for
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
from aioprod.producer.transactions.effects import Effects, Present
from aioprod.producer.transactions.requests import CoordinatorRequests, ProducerIdentity, Refused
from aioprod.types import GroupMetadata, TopicPartition

__all__ = ["Transactions"]

FIRST_IMPLICIT: Final = 2
"""The transaction.version from which a Produce request adds its partitions, and EndTxn raises the epoch (KIP-890)."""

PATIENCE_S: Final = 30.0
"""How long a request in the background is tried before it begins anew."""

S = TransactionState
E = TransactionEvent


@dataclass(slots=True)
class End:
    """A commit or an abort in the background, and why it failed; `is_told`: the coordinator has done its part."""

    call: TransactionEvent
    task: asyncio.Task[None]
    error: AioprodError | None = None
    is_told: bool = False


def _doubtful(error: AioprodError, end: End) -> AioprodError:
    """The same error; of a commit that the coordinator may have heard of nobody knows what became of it."""
    error.may_be_stored = end.call is E.COMMIT
    return error


class Transactions:
    """The runner: one request to a coordinator at a time, every call within `max.block.ms`.

    A commit or an abort that the coordinator may have heard of goes on in the background when its caller is cancelled
    or runs out of time. `on_failure` is called with what nobody expected.
    """

    def __init__(
        self,
        effects: Effects,
        coordination: CoordinatorRequests,
        *,
        loop: asyncio.AbstractEventLoop,
        max_block_s: float,
        on_failure: Callable[[BaseException], object],
    ) -> None:
        self.state = S.UNINITIALIZED
        self.error: AioprodError | None = None
        self._effects = effects
        self._coordination = coordination
        self._max_block_s = max_block_s
        self._tasks = Supervisor(loop, on_failure)
        self._asking = asyncio.Lock()
        self._moved = asyncio.Event()
        self._identity = ProducerIdentity()
        self._present = Present(implicit=False)
        self._held: dict[Partition, None] = {}
        self._is_adding = False
        self._end: End | None = None

    # --- the table

    def refusal(self, call: TransactionEvent) -> AioprodError | None:
        """Why the user can't make a call now, None if nothing speaks against it."""
        return error_for(self.state, call, self.error)

    def _advance(self, event: TransactionEvent) -> None:
        """Go where an event leads; raises the reason if it is a call that is refused."""
        refusal = self.refusal(event)
        if refusal is not None:
            raise refusal
        self.state = TRANSITIONS[self.state, event]
        self._effects.admit(self.state is S.IN_TRANSACTION)
        self._moved.set()
        self._moved.clear()

    # --- calls

    async def initialize(self, timeout_s: float | None = None) -> None:
        """Get a producer id, fencing older producers of this transactional id; does nothing if there is one already."""
        if self.state in (S.UNINITIALIZED, S.INITIALIZING, S.FATAL_ERROR):
            await self._initialize(E.INITIALIZE, timeout_s)

    async def _initialize(self, call: TransactionEvent, timeout_s: float | None = None) -> None:
        self._advance(E.INITIALIZE)
        try:
            async with self._turn(call, timeout_s) as deadline:
                self._set_identity(await self._coordination.initialize(self._identity, deadline))
            self._advance(E.INITIALIZED)
        except Refused as refused:
            if refused.meaning is Meaning.FENCED:
                self._break(refused.error)
            raise refused.error from None
        finally:
            if self.state is S.INITIALIZING:
                self._advance(E.NOT_INITIALIZED)

    async def begin(self) -> None:
        """Begin a transaction; one that is still being aborted is waited for."""
        if self.state is S.ABORTING:
            await self._ended()
        implicit = self._effects.transaction_version() >= FIRST_IMPLICIT
        is_unsafe = not self._present.implicit and (implicit or self._coordination.may_be_known)
        if self._end is not None and (self.state is S.UNINITIALIZED or (self.state is S.READY and is_unsafe)):
            # What was sent in one that raised no epoch and is still on its way, its end above all, must not meet this.
            await self._initialize(E.BEGIN)
        self._advance(E.BEGIN)
        self._present = Present(implicit)
        self._effects.begin(implicit)

    async def commit(self) -> None:
        """Wait for all records, then commit; a commit that was interrupted before is gone on with."""
        if self.state not in (S.COMMITTING, S.COMMITTED):
            self._advance(E.COMMIT)
            try:
                await self._effects.flush(self._max_block_s)
            except BaseException as error:
                if self.state is S.FLUSHING:
                    self._advance(E.WITHDRAWN)
                if isinstance(error, FlushTimeoutError):
                    # The transaction is open: nothing of it is visible to anybody.
                    error.may_be_stored = False
                raise
            if self.state is not S.FLUSHING:
                raise self.refusal(E.COMMIT) or UsageError("The producer was closed while it committed.")
            self._advance(E.FLUSHED)
            self._go_on(E.COMMIT, self._commit())
        await self._ended()
        if self.state is S.COMMITTED:
            self._advance(E.RETURNED)

    async def abort(self) -> None:
        """Give up what is not sent, wait for what is on the wire, then abort; or wait for an abort that goes on."""
        if self.state is not S.ABORTING:
            self._advance(E.ABORT)
            aborted = TransactionAbortedError("The transaction was aborted.", on_purpose=self.error is None)
            aborted.__cause__ = self.error
            self._effects.give_up_unsent("the transaction was aborted.", aborted)
            self._go_on(E.ABORT, self._abort())
        await self._ended()

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Commit a group's offsets when the transaction is committed; what interrupts it fails the transaction."""
        self._advance(E.SEND_OFFSETS)
        present = self._present
        async with self._turn(E.SEND_OFFSETS) as deadline:
            if present is not self._present:
                raise UsageError("The transaction has ended before the offsets were sent.")
            self._advance(E.SEND_OFFSETS)
            try:
                await self._send_offsets(present, offsets, group, deadline)
            except Refused as refused:
                self._refused(refused)
                raise self._own(refused, E.SEND_OFFSETS) from refused.error.__cause__
            except BaseException as error:
                text = f"Whether the offsets of group {group.group_id!r} are in the transaction is not known."
                self.failed(error if isinstance(error, AioprodError) else TransactionAbortedError(text))
                raise

    async def _send_offsets(
        self, present: Present, offsets: Mapping[TopicPartition, int], group: GroupMetadata, deadline: float
    ) -> None:
        if not present.implicit:
            present.may_be_known = True
            await self._coordination.add_offsets(self._identity, group.group_id, deadline)
            present.may_be_known = False
        # Under version 2 the request itself adds: there is something to be ended as soon as it is sent.
        present.is_known = True
        await self._coordination.commit_offsets(self._identity, offsets, group, deadline, adds=present.implicit)

    @property
    def is_aborted(self) -> bool:
        """Whether the transaction whose abort was called last is aborted, though the producer may have failed since."""
        return self._end is not None and self._end.call is E.ABORT and self._end.is_told

    # --- the end of a transaction, in the background

    def _go_on(self, call: TransactionEvent, work: Coroutine[Any, Any, None]) -> None:
        self._end = End(call, self._tasks.spawn(work, name=f"aioprod {call.value}"))

    async def _ended(self) -> None:
        """Wait for the end that goes on in the background; raises why it failed, or RequestTimedOutError."""
        end = self._end
        assert end is not None
        done, _ = await asyncio.wait([end.task], timeout=self._max_block_s)
        if not done:
            raise _doubtful(self._late(end.call), end)
        if end.task.cancelled():
            raise _doubtful(ProducerClosedError(f"The producer was closed before {end.call.value} had ended."), end)
        if (bug := end.task.exception()) is not None:
            text = f"{end.call.value} failed in a way that nobody expected: {bug!r}."
            raise _doubtful(AioprodError(text), end) from bug
        if end.error is not None:
            raise end.error.again()

    async def _commit(self) -> None:
        """Commit what the coordinator knows of; without anything there is nothing to commit."""
        async with self._asking:
            self._release_held()
            if self.state is not S.COMMITTING:
                # What was asked of a coordinator meanwhile was refused.
                assert self._end is not None
                self._end.error = self.refusal(E.COMMIT)
                return
            if await self._tried(Step.COMMIT):
                self._advance(E.ENDED)

    async def _abort(self) -> None:
        """Abort once nothing of the transaction is on the wire any more."""
        await self._effects.flush(None)
        async with self._asking:
            # What was on the wire may have told that the producer is fenced.
            ended = self.state is S.ABORTING
            for step in self._steps_to_abort(self._present):
                ended = ended and await self._tried(step)
            self._release_held()
            if ended:
                self.error = None
                self._advance(E.ENDED)

    def _steps_to_abort(self, present: Present) -> tuple[Step, ...]:
        """End it; then get another epoch where this one is used up, or may be meant by what is still on its way."""
        if present.implicit or not (self._effects.has_gap or present.may_be_known):
            return (Step.ABORT,)
        # The markers of an abort have the epoch of what they abort, so that a record which was lost on its way may come
        # after them. Where a new producer is asked for they have a later one, which keeps such a record out.
        present.is_replaced = present.is_known and self._coordination.is_old
        return (Step.INITIALIZE,) if present.is_replaced else (Step.ABORT, Step.INITIALIZE)

    async def _tried(self, step: Step) -> bool:
        """Take the last steps of a transaction until they are answered; False when that ends the producer instead."""
        assert self._end is not None
        try:
            while True:
                try:
                    self._set_identity(await self._take(step))
                    self._end.is_told = True
                    return True
                except RequestTimedOutError:
                    continue
        except Refused as refused:
            self._refused(refused)
            self._end.error = self._own(refused, self._end.call)
        except AioprodError as error:
            self._break(_doubtful(error, self._end))
        return False

    async def _take(self, step: Step) -> ProducerIdentity:
        present, commits = self._present, step is Step.COMMIT
        if step is Step.INITIALIZE:
            coordination = self._coordination
            return await coordination.initialize(self._identity, self._deadline(), is_open=present.is_replaced)
        is_known = present.is_known or self._effects.has_sent
        if not is_known and not present.may_be_known:
            return self._identity
        return await self._coordination.end(
            self._identity, self._deadline(), committed=commits, raises_epoch=present.implicit, is_known=is_known
        )

    async def close(self) -> None:
        """Abort what is open, or wait for the end that goes on. Who calls limits the time."""
        while self.state is S.FLUSHING:
            await self._moved.wait()
        if self.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            await self.abort()
        elif self.state in (S.COMMITTING, S.ABORTING):
            await self._ended()

    async def stop(self) -> None:
        """End what goes on in the background."""
        await self._tasks.close()

    # --- partitions

    def join(self, partition: Partition) -> bool:
        """The first batch of a partition in this transaction could leave: whether it may now.

        If not the partition is held, until the coordinator knows of it.
        """
        if self.state in (S.IN_TRANSACTION, S.FLUSHING):
            if self._present.implicit:
                return True
            if not self._is_adding:
                self._is_adding = True
                self._tasks.spawn(self._add(), name="aioprod AddPartitionsToTxn")
        self._held[partition] = None
        return False

    async def _add(self) -> None:
        """Add what is held, all at once, and what came meanwhile after that."""
        try:
            async with self._asking:
                while self._held and self.state in (S.IN_TRANSACTION, S.FLUSHING):
                    await self._add_held(list(self._held))
        finally:
            self._is_adding = False

    async def _add_held(self, partitions: list[Partition]) -> None:
        names = [TopicPartition(partition.topic.name, partition.index) for partition in partitions]
        self._present.may_be_known = True
        try:
            await self._coordination.add_partitions(self._identity, names, self._deadline())
        except RequestTimedOutError:
            return
        except Refused as refused:
            self._present.may_be_known = False
            self._refused(refused)
        except AioprodError as error:
            self._break(error)
        else:
            self._present.may_be_known = False
            self._present.is_known = True
            for partition in partitions:
                self._held.pop(partition, None)
                self._effects.release(partition, is_member=True)

    def _release_held(self) -> None:
        """The transaction ends: partitions that it did not get wait for it no more."""
        for partition in self._held:
            self._effects.release(partition, is_member=False)
        self._held.clear()

    # --- failures

    def error_of(self, code: ErrorCode | int, message: str) -> AioprodError | None:
        """The error for a Produce error code that concerns the transactional id; None for other codes."""
        return self._coordination.cause_of(code, message)

    def batch_failed(self, batch: Batch, message: str) -> None:
        """A batch of the transaction was not delivered, for the reason in `message`."""
        error = TransactionAbortedError(message)
        error.__cause__ = batch.cause
        if batch.code in FATAL_FOR_RECORDS:
            self._break(batch.cause if isinstance(batch.cause, AioprodError) else error)
        else:
            self.failed(error)

    def _refused(self, refused: Refused) -> None:
        """A coordinator refused something: the transaction fails, or the producer."""
        if refused.meaning is Meaning.FAILED:
            self.failed(refused.error)
        else:
            self._break(refused.error)

    def _own(self, refused: Refused, call: TransactionEvent) -> AioprodError:
        """The error for the one whose call was refused."""
        failed = refused.meaning is Meaning.FAILED and not isinstance(refused.error, AuthorizationError)
        return (self.refusal(call) if failed else None) or refused.error.again()

    def failed(self, error: AioprodError) -> None:
        """The transaction can only be aborted, if it is not ending anyway."""
        if (self.state, E.FAILED) not in TRANSITIONS:
            return
        is_news = self.state not in (S.ABORTABLE_ERROR, S.ABORTING, S.FATAL_ERROR)
        self._advance(E.FAILED)
        if is_news:
            self.error = error
            aborted = TransactionAbortedError(f"The transaction has failed: {error.message}", hint=error.hint)
            aborted.__cause__ = error
            self._effects.give_up_unsent("the transaction has failed.", aborted)

    def _break(self, error: AioprodError) -> None:
        """The producer can't go on."""
        if self.state is not S.FATAL_ERROR:
            self.error = error
            self._advance(E.BROKEN)
            if self._end is not None and not self._end.task.done():
                self._end.error = error
            self._effects.give_up_unsent("the producer has failed.", error)

    # --- small things

    def _set_identity(self, identity: ProducerIdentity) -> None:
        if identity != self._identity:
            self._identity = identity
            self._effects.set_producer_id(identity)

    def _deadline(self) -> float:
        return self._effects.now() + PATIENCE_S

    @contextlib.asynccontextmanager
    async def _turn(self, call: TransactionEvent, timeout_s: float | None = None) -> AsyncIterator[float]:
        """Hold off other requests to coordinators; gives the deadline of the call."""
        limit_s = self._max_block_s if timeout_s is None else timeout_s
        deadline = self._effects.now() + limit_s
        try:
            async with asyncio.timeout(limit_s):
                await self._asking.acquire()
        except TimeoutError as error:
            raise self._late(call) from error
        try:
            yield deadline
        finally:
            self._asking.release()

    def _late(self, call: TransactionEvent) -> RequestTimedOutError:
        goes_on = " It goes on: call it again to hear how it ends." if self.state in (S.COMMITTING, S.ABORTING) else ""
        return RequestTimedOutError(
            f"{call.value} was not done within max.block.ms={round(self._max_block_s * 1000)}.{goes_on}",
            hint="Check that the brokers can be reached, and that enough replicas are in sync.",
        )
