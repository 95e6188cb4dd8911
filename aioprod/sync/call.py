"""A call of a thread that is a coroutine in the loop: the thread waits for its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from typing import Any, Generic, TypeVar

__all__ = ["Call"]

T = TypeVar("T")


class Call(Generic[T]):
    """One call of `work`: made and awaited by a thread, begun and ended in a loop."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._future: Future[T] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[T] | None = None

    # --- in the loop

    def begin(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[T] | None:
        """Begin; None when it was cancelled before."""
        self._loop = loop
        if not self._future.set_running_or_notify_cancel():
            return None
        self._task = loop.create_task(self._work())
        self._task.add_done_callback(self._ended)
        return self._task

    def _ended(self, task: asyncio.Task[T]) -> None:
        error = CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(task.result())

    def fail(self, error: BaseException) -> None:
        """End with an error before it has begun."""
        if self._future.set_running_or_notify_cancel():
            self._future.set_exception(error)

    # --- in the thread

    def ended_within(self, timeout_s: float | None) -> bool:
        """Wait for the end, for at most so long. An interrupt of the waiting thread cancels the call."""
        try:
            return bool(wait([self._future], timeout_s).done)
        except BaseException:
            self.cancel()
            raise

    def result(self) -> T:
        """Wait for the end; the result. Raises the error of the call, and CancelledError if it was cancelled."""
        self.ended_within(None)
        return self._future.result()

    def withdraw(self) -> bool:
        """Cancel it unless it has begun; whether that could be done."""
        return self._future.cancel()

    def cancel(self) -> None:
        """Cancel the call. If it has begun, it ends soon, and `result` says how."""
        if not self.withdraw() and self._loop is not None:
            with suppress(RuntimeError):  # The loop has ended, and each call with it.
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
