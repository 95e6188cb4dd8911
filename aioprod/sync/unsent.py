"""Records that never reached the producer: callbacks, futures, interceptors and `on_error` get their outcome, too.

That is a record that was found to be wrong in the loop only, or one for which the producer did not start in time.
"""

from __future__ import annotations

import logging
from time import monotonic

from aioprod._short_reprs import shown_error
from aioprod._user_code import raise_later
from aioprod.errors import AioprodError, DeliveryError, InvalidRecordError, NotSentError
from aioprod.producer.logs.callback_faults import CallbackFaults
from aioprod.producer.logs.unread_failures import UnreadFailures
from aioprod.producer.preparation import Preparation
from aioprod.sync.entry import Entry
from aioprod.types import ErrorCallback, ProducerRecord

__all__ = ["Unsent"]


class Unsent:
    """Reports such records, in the loop."""

    def __init__(self, preparation: Preparation, on_error: ErrorCallback | None) -> None:
        self._preparation = preparation
        self._on_error = on_error
        self._clock = monotonic
        self._faults = CallbackFaults(self._clock)
        self._unread = UnreadFailures(self._clock)
        self.count = 0
        """How many records were not sent."""
        self.errors: list[DeliveryError] = []
        """Their errors since `collect`."""
        self._collects = False

    def fail(self, entry: Entry, cause: BaseException) -> None:
        """Report one record: it is not sent because of `cause`, which its waiter gets itself if the record is wrong."""
        topic, partition, waiter = entry.topic, entry.partition, entry.waiter
        raise_later(cause)
        # Without the frames of its traceback, which refer to the future that gets it: no reference would be the last.
        cause = cause.again() if isinstance(cause, AioprodError) else cause.with_traceback(None)
        error = cause if isinstance(cause, InvalidRecordError) else self._not_sent(entry, cause)
        self._preparation.report_not_accepted(topic, partition, error)
        if waiter is None:
            self.report(error, entry.record())
            return
        try:
            self._faults.returned("on_delivery", waiter, waiter(None, error), f"a record for topic {topic!r}")
        except BaseException as raised:
            self._faults.raised("on_delivery", waiter, raised, f"a record for topic {topic!r}")

    def collect(self) -> None:
        """Keep the errors from now on: the producer closes."""
        self._collects = True

    def _not_sent(self, entry: Entry, cause: BaseException) -> NotSentError:
        reason = cause.message if isinstance(cause, AioprodError) else f"{shown_error(cause)}."
        error = NotSentError(
            f"A record for topic {entry.topic!r} was not sent: {reason}",
            topic=entry.topic,
            partition=entry.partition,
            age_s=self._clock() - entry.now,
            hint=cause.hint if isinstance(cause, AioprodError) else None,
        )
        error.__cause__ = cause
        self.count += 1
        if self._collects:
            self.errors.append(error)
        return error

    def report(self, error: AioprodError, record: ProducerRecord | None) -> None:
        """Report a failed record whose outcome no caller looks at; `record` is given if there is an `on_error`."""
        topic = getattr(error, "topic", None) if record is None else record.topic
        if self._on_error is None or record is None:
            text = f"A record failed without a waiting call: {error}"
            self._unread.log_failure(f"topic {topic!r}", error.__cause__, logging.WARNING, 1, text)
            return
        try:
            self._faults.returned("on_error", self._on_error, self._on_error(error, record), f"topic {topic!r}")
        except BaseException as raised:
            self._faults.raised("on_error", self._on_error, raised, f"topic {topic!r}")

    def close(self) -> None:
        """Log what was only counted so far."""
        self._faults.close()
        self._unread.close()
