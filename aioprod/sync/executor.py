"""Threads for what the loop can't do itself, such as looking up host names, also while the interpreter ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["Executor"]

T = TypeVar("T")


class Executor(ThreadPoolExecutor):
    """Works in the thread of the caller where no thread can be started: Python starts none while it ends.

    Records that a script has sent as its last act would be lost otherwise, as their broker's name can't be looked up.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run `fn` in a thread, or here."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            future: Future[T] = Future()
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
            return future
