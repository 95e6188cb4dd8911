"""Who waits for a record learns what became of it: futures, callbacks, bulk calls, interceptors, `on_error`."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from aioprod.core.accumulator import Accumulator
from aioprod.core.batch import Batch, ParkedRecord, Run
from aioprod.core.lifecycle import release
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
)
from aioprod.interceptors import Interceptors
from aioprod.producer.failure import Failure, rebuilt
from aioprod.records.builder import EncodedRecord
from aioprod.records.cursor import RecordCursor
from aioprod.types import DeliveryReport, ErrorCallback, ProducerRecord, RecordMetadata, TopicPartition

__all__ = ["Delivery", "DeliveryFuture"]

log = logging.getLogger("aioprod.producer")


def _references_of_a_local() -> int:
    held = [object()]
    local = held.pop()
    return sys.getrefcount(local)


SLICE_COST = 512
"""Between two looks at the clock; a callback costs 1, a future 5: waking its task costs another turn of the loop."""
FUTURE_COST = 5
ONLY_HERE = _references_of_a_local()
"""What `sys.getrefcount` says of an object that nothing but a local variable holds."""
USER_ERRORS = (Exception, asyncio.CancelledError)
"""What a callback may raise: also the cancellation of some other future that it asked for its result."""
TURN_S = 0.005
"""How long one turn of the loop may be spent on telling outcomes."""


class DeliveryFuture(asyncio.Future[RecordMetadata]):
    """What `submit()` returns: cancelling it before its batch is sent takes the record out.

    `owner` is the batch, or the parked record, that it belongs to; `unseen` the record, once it has failed and until
    somebody looks at the future.
    """

    __slots__ = ("owner", "unseen", "withdraw")

    owner: Batch | ParkedRecord
    unseen: ProducerRecord | None
    withdraw: Callable[[DeliveryFuture, Batch | ParkedRecord], object]

    def cancel(self, msg: Any = None) -> bool:
        """Cancel, and withdraw the record if it was not sent yet."""
        if not super().cancel(msg):
            return False
        self.withdraw(self, self.owner)
        return True


class Completion:
    """One settled batch, and how far its waiters have been told."""

    __slots__ = ("append_time", "base_offset", "batch", "cursor", "entry", "failure", "unwatched")

    def __init__(self, batch: Batch, base_offset: int, append_time: int, failure: Failure | None) -> None:
        self.batch = batch
        self.base_offset = base_offset
        self.append_time = append_time
        self.failure = failure
        self.cursor = RecordCursor(batch.builder)
        self.entry = 0
        self.unwatched = 0


class Delivery:
    """Settled batches on their way to those who wait, in order, a few milliseconds of each turn of the loop.

    `room_freed` is called when bytes were given back, `watch_unseen` when `report_unseen` is wanted in a while.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        interceptors: Interceptors,
        on_error: ErrorCallback | None,
        room_freed: Callable[[], None],
        watch_unseen: Callable[[], None],
    ) -> None:
        self._accumulator = accumulator
        self._loop = loop
        self._clock = clock
        self._interceptors = interceptors
        self._on_error = on_error
        self._room_freed = room_freed
        self._watch_unseen = watch_unseen
        self._queue: deque[Completion] = deque()
        self._scheduled = False
        self.unseen: list[DeliveryFuture] = []
        self.counts: dict[type[DeliveryError], int] = {NotSentError: 0, UnknownOutcomeError: 0, RejectedError: 0}
        self.delivered = 0
        self.undelivered: list[DeliveryError] | None = None

    # --- what comes in

    def succeed(self, batch: Batch, base_offset: int, append_time: int) -> None:
        """A batch is stored at `base_offset` (-1: not known); `append_time` is the broker's in ms, -1 for none."""
        self.delivered += batch.records
        self._queue.append(Completion(batch, base_offset, append_time, None))

    def fail(self, batch: Batch, failure: Failure) -> None:
        """A batch will not be sent (again)."""
        self.counts[failure.family] += batch.records
        self._queue.append(Completion(batch, -1, -1, failure))

    def refuse(self, records: Iterable[ParkedRecord], cause: AioprodError) -> None:
        """Records of one topic that were evicted from their parking place never got a partition.

        To a `send()` they were not accepted yet: it raises the cause itself.
        """
        message = ""
        for record in records:
            message = message or f"A record for topic {record.topic.name!r} was not sent: {cause.message}"
            waiter = record.waiter
            if isinstance(waiter, asyncio.Future) and type(waiter) is not DeliveryFuture:
                own = cause.again()
                self._interceptors.on_send_error(self._parked(record), record.partition, own)
                if not waiter.done():
                    waiter.set_exception(own)
            else:
                self._refuse(record, message, cause)

    def _refuse(self, record: ParkedRecord, message: str, cause: AioprodError) -> None:
        self.counts[NotSentError] += 1
        error = NotSentError(
            message,
            topic=record.topic.name,
            partition=record.partition,
            age_s=self._clock() - record.accepted,
            hint=cause.hint,
        )
        error.__cause__ = cause
        if self.undelivered is not None:
            self.undelivered.append(error)
        if self._interceptors:
            self._interceptors.on_send_error(self._parked(record), record.partition, error)
        if not self._tell_error(record.waiter, error, lambda: self._parked(record)):
            self.report_unwatched(error, self._parked(record))

    # --- telling

    def run(self) -> None:
        """Tell outcomes for at most `TURN_S`, then let the loop breathe and go on."""
        self._scheduled = False
        end = self._clock() + TURN_S
        while self._queue:
            completion = self._queue[0]
            if self._step(completion):
                self._queue.popleft()
                self._close(completion)
            if self._clock() >= end:
                break
        if self._queue:
            self.schedule()
        self._room_freed()

    def schedule(self) -> None:
        """Tell outcomes in the next turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run)

    def run_all(self) -> None:
        """Tell everything now: the producer closes."""
        while self._queue:
            self.run()

    def batches(self) -> list[Batch]:
        """The settled batches of which not everybody has been told."""
        return [completion.batch for completion in self._queue]

    def _step(self, completion: Completion) -> bool:
        """Tell up to `SLICE_COST` worth of waiters; False when there are more."""
        batch = completion.batch
        waiters = batch.waiters
        cursor = completion.cursor
        failure = completion.failure
        quiet = failure is None and not self._interceptors
        # Of a record without waiter nobody hears but interceptors and, of its failure, on_error.
        unheard = not self._interceptors and (failure is None or self._on_error is None)
        cost = 0
        while completion.entry < len(waiters) and cost < SLICE_COST:
            waiter = waiters[completion.entry]
            completion.entry += 1
            if type(waiter) is Run:
                cost += self._tell_run(completion, waiter, quiet)
            elif waiter is None and unheard:
                cursor.skip(1)
                if failure is not None:
                    completion.unwatched += 1
                    cost += 1
                    if self.undelivered is not None:
                        self.undelivered.append(failure.error(cursor.index))
            else:
                cursor.next()
                if batch.withdrawn is None or cursor.index not in batch.withdrawn:
                    cost += self._tell(completion, waiter)
        return completion.entry >= len(waiters)

    def _tell(self, completion: Completion, waiter: Any) -> int:
        """Tell the waiter of the record on which the cursor stands; what it cost."""
        failure = completion.failure
        if failure is not None:
            self._tell_failure(completion, waiter, failure)
            return FUTURE_COST
        metadata = self._metadata(completion)
        if self._interceptors:
            self._interceptors.on_acknowledgement(metadata, None)
        if waiter is None:
            return 1
        if isinstance(waiter, asyncio.Future):
            if not waiter.done():
                waiter.set_result(metadata)
            return FUTURE_COST
        try:
            waiter(metadata, None)
        except USER_ERRORS:
            partition = completion.batch.partition
            log.exception("The on_delivery callback of a record of %s-%d failed", partition.topic.name, partition.index)
        return 1

    def _tell_run(self, completion: Completion, run: Run, quiet: bool) -> int:
        """Tell a bulk call of the records on which the cursor stands next; what it cost."""
        cursor = completion.cursor
        failure = completion.failure
        first = cursor.index + 1
        if quiet:
            cursor.skip(run.count)
        else:
            for _ in range(run.count):
                cursor.next()
                error = None if failure is None else failure.error(cursor.index)
                if self._interceptors:
                    self._interceptors.on_acknowledgement(self._metadata(completion), error)
                if error is not None and self.undelivered is not None:
                    self.undelivered.append(error)
                if error is not None and not run.bulk.watched:
                    completion.unwatched += 1
                    self._report(error, self._record(completion))
        offset = completion.base_offset + first if completion.base_offset >= 0 else -1
        partition = completion.batch.partition
        run.bulk.settle(TopicPartition(partition.topic.name, partition.index), run, offset, failure, first)
        return 1 if quiet else run.count

    def _tell_failure(self, completion: Completion, waiter: Any, failure: Failure) -> None:
        error = failure.error(completion.cursor.index)
        if self._interceptors:
            self._interceptors.on_acknowledgement(self._metadata(completion), error)
        if self.undelivered is not None:
            self.undelivered.append(error)
        if not self._tell_error(waiter, error, lambda: self._record(completion)):
            completion.unwatched += 1
            self._report(error, self._record(completion))

    def _tell_error(self, waiter: Any, error: DeliveryError, record: Callable[[], ProducerRecord]) -> bool:
        """Tell one waiter of a failure; False when nobody waits."""
        if waiter is None:
            return False
        if isinstance(waiter, asyncio.Future):
            if waiter.cancelled():
                return False
            if not waiter.done():
                waiter.set_exception(error)
                if type(waiter) is DeliveryFuture:
                    waiter.unseen = record() if self._on_error is not None else None
                    self.unseen.append(waiter)
                    if len(self.unseen) == 1:
                        self._watch_unseen()
            return True
        try:
            waiter(None, error)
        except USER_ERRORS:
            log.exception("The on_delivery callback of a failed record failed")
        return True

    def _close(self, completion: Completion) -> None:
        release(self._accumulator, completion.batch)
        failure = completion.failure
        if failure is not None and completion.unwatched and self._on_error is None:
            log.warning("Nobody waits for %d of these records: %s", completion.unwatched, failure.message)

    # --- failures that nobody has seen

    def report_unseen(self, closing: bool) -> None:
        """Report the failed `submit()` futures that were dropped, or at the end never looked at."""
        held, self.unseen = self.unseen, []
        dropped = 0
        last: BaseException | None = None
        held.reverse()
        while held:
            future = held.pop()
            if not future._log_traceback:
                continue
            if not closing and sys.getrefcount(future) > ONLY_HERE:
                self.unseen.append(future)
                continue
            last = future.exception()
            dropped += 1
            if future.unseen is not None and isinstance(last, AioprodError):
                self._report(last, future.unseen)
        if dropped and self._on_error is None:
            log.warning("%d futures of failed records were never looked at: %s", dropped, last)

    def report_unwatched(self, error: AioprodError, record: ProducerRecord) -> None:
        """Report one failed record of which nobody else will hear."""
        self._report(error, record)
        if self._on_error is None:
            log.warning("A record failed and nobody waits for it: %s", error)

    def _report(self, error: AioprodError, record: ProducerRecord) -> None:
        if self._on_error is None:
            return
        try:
            self._on_error(error, record)
        except USER_ERRORS:
            log.exception("on_error failed for a record of topic %r", record.topic)

    # --- records and reports

    def _metadata(self, completion: Completion) -> RecordMetadata:
        cursor = completion.cursor
        partition = completion.batch.partition
        base_offset = completion.base_offset
        return RecordMetadata(
            partition.topic.name,
            partition.index,
            base_offset + cursor.index if base_offset >= 0 else -1,
            cursor.timestamp if completion.append_time < 0 else completion.append_time,
            cursor.key_size,
            cursor.value_size,
        )

    def _record(self, completion: Completion) -> ProducerRecord:
        partition = completion.batch.partition
        record = completion.cursor.record()
        return rebuilt(partition.topic.name, partition.index, record)

    def _parked(self, record: ParkedRecord) -> ProducerRecord:
        encoded = EncodedRecord(record.timestamp, record.key, record.value, record.headers)
        return rebuilt(record.topic.name, record.partition, encoded)

    def report(self) -> DeliveryReport:
        """The counts since `start()`, and what failed since `undelivered` was set."""
        return DeliveryReport(
            delivered=self.delivered,
            not_sent=self.counts[NotSentError],
            unknown=self.counts[UnknownOutcomeError],
            rejected=self.counts[RejectedError],
            undelivered=tuple(self.undelivered or ()),
        )
