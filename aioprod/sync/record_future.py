"""The future of one record that a thread has submitted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from aioprod.errors import AioprodError, UsageError
from aioprod.record_metadata import RecordMetadata
from aioprod.types import ProducerRecord

__all__ = ["RecordFuture"]


class RecordFuture(Future[RecordMetadata]):
    """What `submit` returns. `cancel()` takes the record back as long as the loop has not taken it over.

    It is the waiter of its record, which calls it with the outcome. `in_flight` holds it from `begin` to the outcome.
    `unseen(error, record)` is called, in any thread, when it is dropped with an error that nothing has looked at.
    """

    def __init__(
        self,
        in_flight: set[RecordFuture],
        unseen: Callable[[AioprodError, ProducerRecord | None], None],
    ) -> None:
        super().__init__()
        self._in_flight = in_flight
        self._unseen = unseen
        self._record: ProducerRecord | None = None
        self._has_begun = False
        self._is_watched = False
        self._unseen_error: AioprodError | None = None

    def keep(self, record: ProducerRecord) -> None:
        """Keep the record for `unseen`."""
        self._record = record

    def begin(self) -> bool:
        """The loop takes the record over; False if it was cancelled before."""
        self._has_begun = True
        if not self.set_running_or_notify_cancel():
            return False
        self._in_flight.add(self)
        return True

    def __call__(self, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        """The outcome of the record."""
        if not self._has_begun and not self.begin():
            return
        try:
            if error is None:
                assert metadata is not None
                self.set_result(metadata)
            else:
                # Before the threads that wait for it run.
                self._unseen_error = None if self._is_watched else error
                self.set_exception(error)
        finally:
            self._in_flight.discard(self)

    def after_fork(self) -> None:
        """This is a child of the process that sent the record: what becomes of it is not known here.

        The locks that it had may belong to threads that are not here, and its callbacks are the parent's.
        """
        Future.__init__(self)
        self._unseen_error = None
        self.set_exception(
            UsageError(
                "This record was sent before the process forked: its outcome comes in the parent process only.",
                hint="Await the futures in the process that has made them.",
            )
        )

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome; raises the record's error, or TimeoutError after `timeout` seconds."""
        try:
            return super().result(timeout)
        finally:
            self._look()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome; the record's error, or None for one that is stored."""
        try:
            return super().exception(timeout)
        finally:
            self._look()

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], Any]) -> None:
        """Call `fn(future)` with the outcome, in the producer's thread, or at once if that is known."""
        self._is_watched = True
        self._unseen_error = None
        super().add_done_callback(fn)

    def _look(self) -> None:
        if self.done():
            self._unseen_error = None

    def __del__(self) -> None:
        error = getattr(self, "_unseen_error", None)
        if error is not None:
            self._unseen(error, self._record)
