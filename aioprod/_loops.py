"""The event loop that runs here, and calls into the loop of another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from aioprod.errors import UsageError

__all__ = ["call_in_loop", "look_at", "running_loop"]

T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop:
    """The running event loop; raises UsageError where asyncio has none, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise UsageError(
            "No event loop of asyncio runs here.",
            hint="Call it within asyncio.run(...). Under trio, and under anyio with trio, aioprod does not work.",
        ) from error


def look_at(future: asyncio.Future[Any]) -> None:
    """Look at a done future's error, as a callback of it: asyncio does not report it as never retrieved then."""
    if not future.cancelled():
        future.exception()


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> Future[T]:
    """Have the event loop of another thread call a function; the future gets its result, or its Exception.

    Raises RuntimeError when the loop is closed.
    """
    future: Future[T] = Future()

    def call() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    loop.call_soon_threadsafe(call)
    return future
