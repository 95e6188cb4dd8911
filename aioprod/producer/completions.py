"""Completes futures and runs callbacks, bulk calls, interceptors and `on_error` for the records of done batches."""

from __future__ import annotations

import asyncio
from asyncio import Future, InvalidStateError
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from aioprod._logger import Logger
from aioprod._short_reprs import shown_error
from aioprod._user_code import raise_later
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
)
from aioprod.interceptors import Interceptors
from aioprod.producer.backpressure import MemoryWaiters
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, ParkedRecord, Run
from aioprod.producer.batching.lifecycle import release
from aioprod.producer.callbacks import UNWATCHED
from aioprod.producer.completion import Completion
from aioprod.producer.delivery_future import DeliveryFuture
from aioprod.producer.failure import Failure, kind_of, rebuilt
from aioprod.producer.failure_reports import FailureReports
from aioprod.producer.logs.callback_faults import CallbackFaults
from aioprod.producer.meters import Meters
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.records.builder import EncodedRecord
from aioprod.types import DeliveryReport, ProducerRecord, TopicPartition

__all__ = ["Completions"]

_logger = Logger("aioprod.producer")


_SLICE_COST: Final = 512
"""The clock is read whenever the completed records have cost this much; a callback costs 1."""
_FUTURE_COST: Final = 5
"""What a future costs, as its task has to be woken."""
_RUN_SLICE: Final = _SLICE_COST // _FUTURE_COST
"""Records of a run between two looks at the clock, where each of them is reported."""
TURN_S: Final = 0.005
"""The time that completions may take in one iteration of the loop, however often `run` is called."""
_UNCOUNTED_S: Final = 0.001
"""Below this the end of the iteration is not awaited, which costs a callback."""
_set_result: Final = Future.set_result


class Completions:
    """Completes the records of done batches, in order, for a few milliseconds of each iteration of the loop."""

    def __init__(
        self,
        accumulator: Accumulator,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        interceptors: Interceptors,
        reports: FailureReports,
        callback_faults: CallbackFaults,
        rules: TransactionRules,
        meters: Meters,
        memory_waiters: MemoryWaiters,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._accumulator = accumulator
        self._loop = loop
        self._plain_future = type(loop.create_future())
        """What `send()` waits for: isinstance() of a callback costs as much as calling it."""
        self._clock = clock
        self._interceptors = interceptors
        self._intercepted = bool(interceptors)
        self._reports = reports
        """They take the failures that no caller waits for."""
        self._faults = callback_faults
        self._rules = rules
        """Notified when accepted records fail before they got a partition."""
        self._meters = meters
        self._memory_waiters = memory_waiters
        """Notified when memory was freed."""
        self._on_failure = on_failure
        """Takes an error of our own that completed no record: what it is about is tried again."""
        self._queue: deque[Completion] = deque()
        self._scheduled = False
        self._spent_s = 0.0
        """The seconds that completions took in this iteration of the loop."""
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
        self._meters.failed(batch)
        self._queue.append(Completion(batch, -1, -1, failure))

    def fail_parked(self, records: Iterable[ParkedRecord], cause: AioprodError) -> None:
        """Fail parked records of one topic, which have no partition.

        For a `send()` they were not accepted yet: it raises the cause itself.
        """
        logged = False
        for record in records:
            if not logged:
                logged = True
                self._rules.fail(cause)
            try:
                waiter = record.waiter
                if isinstance(waiter, Future) and type(waiter) is not DeliveryFuture:
                    own = cause.again()
                    self._interceptors.on_send_error(self._parked(record), record.partition, own)
                    if not waiter.done():
                        waiter.set_exception(own)
                else:
                    self._fail_parked_record(record, cause)
            except BaseException as error:
                waiter, record.waiter = record.waiter, None
                self._untold(waiter, NotSentError, record.topic.name, record.partition, error)

    def _fail_parked_record(self, record: ParkedRecord, cause: AioprodError) -> None:
        message = f"A record for topic {record.topic.name!r} was not sent: {cause.message}"
        self.counts[NotSentError] += 1
        error = kind_of(NotSentError, cause)(
            message,
            topic=record.topic.name,
            partition=record.partition,
            age_s=self._clock() - record.accepted,
            hint=cause.hint,
        )
        error.__cause__ = cause
        if self.undelivered is not None:
            self.undelivered.append(error)
        if self._intercepted:
            self._interceptors.on_send_error(self._parked(record), record.partition, error)
        waiter, record.waiter = record.waiter, None
        if not self._set_error(waiter, error, lambda: self._parked(record)):
            self._reports.report_record(error, self._parked(record))

    # --- completing

    def run(self) -> None:
        """Complete records for what is left of `TURN_S` in this iteration of the loop; the next one continues."""
        start = self._clock()
        hold_s = 0.0
        while self._queue and self._spent_s + hold_s < TURN_S:
            completion = self._queue[0]
            if self._step(completion):
                self._close(completion)
                self._queue.popleft()
            hold_s = self._clock() - start
        self._spent_s += hold_s
        if self._queue or self._spent_s > _UNCOUNTED_S:
            self.schedule()
        if self._accumulator.budget.waiting:
            self._memory_waiters.freed()

    def schedule(self) -> None:
        """Complete records in the next iteration of the loop."""
        if not self._scheduled:
            self._loop.call_soon(self._next_turn)
            self._scheduled = True

    def _next_turn(self) -> None:
        self._scheduled = False
        self._spent_s = 0.0
        if self._queue:
            self.run_guarded()
            self._meters.loop_hold.record(self._spent_s * 1000)

    def run_guarded(self) -> None:
        """As `run`; an error of our own goes to `on_failure`."""
        try:
            self.run()
        except BaseException as error:
            self._on_failure(error)

    def run_all(self) -> None:
        """Complete everything now: the producer closes."""
        while self._queue:
            self._spent_s = 0.0
            self.run()

    @property
    def is_idle(self) -> bool:
        """True when the records of all done batches are completed."""
        return not self._queue

    def batches(self) -> list[Batch]:
        """The done batches with records that are not completed yet."""
        return [completion.batch for completion in self._queue]

    def _step(self, completion: Completion) -> bool:
        """Complete up to `_SLICE_COST` worth of records; False when there are more.

        A record that could not be completed, for lack of memory or by a fault in here, fails alone.
        """
        try:
            return self._complete_some(completion)
        except BaseException as error:
            waiter, completion.waiter = completion.waiter, None
            completion.leave_out(waiter)
            family = UnknownOutcomeError if completion.failure is None else completion.failure.family
            self._untold(waiter, family, completion.topic, completion.batch.partition.index, error)
            return False

    def _complete_some(self, completion: Completion) -> bool:
        batch = completion.batch
        waiters = batch.waiters
        failure = completion.failure
        withdrawn = batch.withdrawn
        # A record without waiter is reported to interceptors only and, when it failed, to on_error.
        unheard = not self._intercepted and (failure is None or not self._reports.needs_records)
        cost = 0
        while completion.entry < len(waiters) and cost < _SLICE_COST:
            waiter = waiters[completion.entry]
            if type(waiter) is Run:
                cost += self._complete_run(completion, waiter)
                continue
            completion.entry += 1
            if waiter is None and unheard:
                if failure is not None:
                    completion.unwatched += 1
                    cost += 1
                    if self.undelivered is not None:
                        self.undelivered.append(failure.error(completion.next_index()))
                completion.behind += 1
            else:
                completion.waiter = waiter
                completion.step()
                if withdrawn is None or completion.cursor.index not in withdrawn:
                    cost += self._complete_record(completion, waiter)
        return completion.entry >= len(waiters)

    def _complete_record(self, completion: Completion, waiter: Any) -> int:
        """Complete the record at the cursor; returns what it cost."""
        if completion.failure is not None:
            self._complete_with_error(completion, waiter, completion.failure)
            return _FUTURE_COST
        metadata = completion.metadata()
        if self._intercepted:
            self._interceptors.on_acknowledgement(metadata, None)
        if waiter is None:
            return 1
        kind = type(waiter)
        if kind is DeliveryFuture or kind is self._plain_future:
            try:
                _set_result(waiter, metadata)
            except InvalidStateError:
                return 1  # It was cancelled: no task is woken.
            return _FUTURE_COST
        completion.waiter = None
        try:
            returned = waiter(metadata, None)
        except BaseException as error:
            self._faults.raised("on_delivery", waiter, error, completion.place())
            return 1
        if returned is not None:
            self._faults.returned("on_delivery", waiter, returned, completion.place())
        return 1

    def _complete_run(self, completion: Completion, run: Run) -> int:
        """Complete the next records of a bulk call, some at a time if each is reported; returns what it cost."""
        failure = completion.failure
        count = run.count - completion.completed
        completion.waiter = run
        if failure is not None or self._intercepted:
            count = min(count, _RUN_SLICE)
            for _ in range(count):
                completion.step()
                self._report_of_run(completion, run)
        else:
            completion.behind += count
        completion.completed += count
        if completion.completed == run.count:
            first = completion.next_index() - run.count
            offset = completion.base_offset + first if completion.base_offset >= 0 else -1
            place = TopicPartition(completion.topic, completion.batch.partition.index)
            run.bulk.complete(place, run, offset, completion.append_time, failure, first)
            completion.waiter = None
            completion.completed = 0
            completion.entry += 1
        return 1 if failure is None and not self._intercepted else count * _FUTURE_COST

    def _report_of_run(self, completion: Completion, run: Run) -> None:
        """Report the record at the cursor to all but the bulk call itself."""
        failure = completion.failure
        error = None if failure is None else failure.error(completion.cursor.index)
        if self._intercepted:
            self._interceptors.on_acknowledgement(completion.metadata(), error)
        if error is None:
            return
        if self.undelivered is not None:
            self.undelivered.append(error)
        if not run.bulk.watched:
            completion.unwatched += 1
            self._reports.report(error, completion.record)

    def _complete_with_error(self, completion: Completion, waiter: Any, failure: Failure) -> None:
        error = failure.error(completion.cursor.index)
        if self._intercepted:
            self._interceptors.on_acknowledgement(completion.metadata(), error)
        if self.undelivered is not None:
            self.undelivered.append(error)
        completion.waiter = None
        if not self._set_error(waiter, error, completion.record):
            completion.unwatched += 1
            self._reports.report(error, completion.record)

    def _set_error(self, waiter: Any, error: DeliveryError, record: Callable[[], ProducerRecord]) -> bool:
        """Set the error of one waiter, or call it; False when there is none."""
        if waiter is None:
            return False
        if isinstance(waiter, Future):
            if waiter.cancelled():
                return False
            if not waiter.done():
                waiter.set_exception(error)
                if type(waiter) is DeliveryFuture:
                    self._reports.watch(waiter, record)
            return True
        place = f"a failed record of {error.topic}-{error.partition}"
        try:
            returned = waiter(None, error)
            if returned is UNWATCHED:
                return False
            self._faults.returned("on_delivery", waiter, returned, place)
        except BaseException as raised:
            self._faults.raised("on_delivery", waiter, raised, place)
        return True

    def _untold(
        self, waiter: Any, family: type[DeliveryError], topic: str, partition: int, cause: BaseException
    ) -> None:
        """The outcome of a record could not be handed to its waiter, which gets the cause instead."""
        raise_later(cause)
        said = shown_error(cause)
        message = f"The outcome of a record for topic {topic!r} could not be handed to its caller: {said}."
        error = family(message, topic=topic, partition=partition)
        error.__cause__ = cause
        _logger.error("%s", error, exc_info=cause)
        if type(waiter) is Run:
            waiter.bulk.fail(error)
        elif waiter is not None and not (isinstance(waiter, Future) and waiter.done()):
            self._set_error(waiter, error, lambda: ProducerRecord(topic, None, partition=partition))

    def _close(self, completion: Completion) -> None:
        batch = completion.batch
        if not batch.released:
            release(self._accumulator, batch)
        failure = completion.failure
        if failure is not None and completion.unwatched:
            self._reports.report_batch(failure, completion.unwatched, batch.records)

    # --- records and reports

    def _parked(self, record: ParkedRecord) -> ProducerRecord:
        encoded = EncodedRecord(record.timestamp, record.key, record.value, record.headers)
        return rebuilt(record.topic.name, record.partition, encoded)

    def collect_undelivered(self) -> None:
        """Keep the errors of records that fail from now on, for the report of a close."""
        self.undelivered = []

    def report(self) -> DeliveryReport:
        """The counts since `start()`, and what failed since `collect_undelivered`."""
        return DeliveryReport(
            delivered=self.delivered,
            not_sent=self.counts[NotSentError],
            unknown=self.counts[UnknownOutcomeError],
            rejected=self.counts[RejectedError],
            undelivered=tuple(self.undelivered or ()),
        )
