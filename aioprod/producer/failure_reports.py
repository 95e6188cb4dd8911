"""Reports failed records that no caller waits for: to `on_error`, or to the log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Final

from aioprod._logger import Logger
from aioprod.errors import AioprodError
from aioprod.net.scheduler import Scheduler
from aioprod.producer.delivery_future import DeliveryFuture
from aioprod.producer.failure import Failure, is_aborted_on_purpose
from aioprod.producer.logs.callback_faults import CallbackFaults
from aioprod.producer.logs.unread_failures import UnreadFailures
from aioprod.types import ErrorCallback, ProducerRecord

__all__ = ["HOUSEKEEPING_S", "FailureReports"]

_logger = Logger("aioprod.producer")

HOUSEKEEPING_S: Final = 1.0
"""How often failed futures that were dropped are looked for, while there are any."""
_UNREAD_AT_ONCE: Final = 5000
"""Failed futures that are examined in one iteration of the loop."""


def _references_of_a_local() -> int:
    held = [object()]
    local = held.pop()
    return sys.getrefcount(local)


_ONLY_HERE: Final = _references_of_a_local()
"""What `sys.getrefcount` says of an object that nothing but a local variable holds."""


class FailureReports:
    """Each failed record is reported once: to its caller, or here."""

    def __init__(
        self,
        on_error: ErrorCallback | None,
        *,
        clock: Callable[[], float],
        scheduler: Scheduler,
        callback_faults: CallbackFaults,
    ) -> None:
        self._on_error = on_error
        self.needs_records = on_error is not None
        """Each record is reported by itself; else a batch has one line of the log."""
        self._clock = clock
        self._scheduler = scheduler
        self._faults = callback_faults
        self._unread_log = UnreadFailures(clock)
        self.unread: list[tuple[DeliveryFuture, ProducerRecord | None]] = []
        """Failed futures that no caller has read yet, with the record for `on_error`.

        While there are any, `report_unread` has to be called every `HOUSEKEEPING_S`.
        """
        self._left = 0
        """How many of `unread` were not examined in this round."""

    def watch(self, future: DeliveryFuture, record: Callable[[], ProducerRecord]) -> None:
        """Report the failure of this future when it is dropped without having been read."""
        self.unread.append((future, None if self._on_error is None else record()))
        if len(self.unread) == 1:
            self._scheduler.wake_at(self._clock() + HOUSEKEEPING_S)

    def report_unread(self, closing: bool) -> bool:
        """Report the failed `submit()` futures that were dropped, and when closing those that were never read.

        Examines some at a time: False when some were not examined since it last returned True.
        """
        if self._left <= 0:
            self._left = len(self.unread)
        examined = self.unread[:_UNREAD_AT_ONCE]
        del self.unread[:_UNREAD_AT_ONCE]
        self._left -= len(examined)
        dropped = 0
        level = logging.DEBUG
        shown: BaseException | None = None
        examined.reverse()
        while examined:
            future, record = examined.pop()
            if not future._log_traceback:
                continue
            if not closing and sys.getrefcount(future) > _ONLY_HERE:
                self.unread.append((future, record))
                continue
            error = future.exception()
            dropped += 1
            if shown is None or _level(error) > level:
                level, shown = _level(error), error
            if record is not None and isinstance(error, AioprodError):
                self._call(error, record)
        if dropped and self._on_error is None:
            whose = "1 future of a failed record was" if dropped == 1 else f"{dropped} futures of failed records were"
            _logger.log(level, "%s never looked at: %s", whose, shown)
        return self._left <= 0

    def report(self, error: AioprodError, record: Callable[[], ProducerRecord]) -> None:
        """Call `on_error` for a record of a batch; without it, `report_batch` logs what becomes of the batch."""
        if self._on_error is not None:
            self._call(error, record())

    def report_batch(self, failure: Failure, unwatched: int, records: int) -> None:
        """Log that a batch failed, `unwatched` of whose `records` have no waiter; with `on_error` each was reported."""
        if self._on_error is None:
            whose = "" if unwatched == records else f"{unwatched} of them "
            said = f"{failure.event}, {whose}without on_delivery or future: {failure.why}"
            place = f"{failure.topic}-{failure.partition}"
            self._unread_log.log_failure(place, failure.cause, _level(failure.cause), unwatched, said)

    def report_record(self, error: AioprodError, record: ProducerRecord) -> None:
        """Report one failed record that has no waiter."""
        if self._on_error is not None:
            self._call(error, record)
            return
        said = f"A record failed without a waiting call: {error}"
        self._unread_log.log_failure(f"topic {record.topic!r}", error.__cause__, _level(error), 1, said)

    def log_counted(self) -> None:
        """Log what was only counted so far: failed callbacks, and failed records without waiter."""
        self._faults.close()
        self._unread_log.close()

    def _call(self, error: AioprodError, record: ProducerRecord) -> None:
        assert self._on_error is not None
        place = f"a record of topic {record.topic!r}"
        try:
            self._faults.returned("on_error", self._on_error, self._on_error(error, record), place)
        except BaseException as raised:
            self._faults.raised("on_error", self._on_error, raised, place)


def _level(error: BaseException | None) -> int:
    """The log level of a failed record: DEBUG for records that an abort by the user failed, else WARNING."""
    return logging.DEBUG if is_aborted_on_purpose(error) else logging.WARNING
