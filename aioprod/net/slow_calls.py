"""Log lines about a call that takes long, written while it is still waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aioprod._logger import Logger

__all__ = ["EVERY_S", "START_QUIET_S", "repeat_while_slow", "warn_if_start_is_slow"]

_logger = Logger("aioprod.net")

START_QUIET_S: Final = 1.0
"""How long a start may take before the log says what it waits for: with a healthy cluster it takes milliseconds."""

EVERY_S: Final = 10.0
"""How often that line is repeated."""


@contextmanager
def repeat_while_slow(
    loop: asyncio.AbstractEventLoop, report: Callable[[], None], *, after_s: float, every_s: float = EVERY_S
) -> Iterator[None]:
    """Call `report` when the block has taken `after_s` seconds, and again every `every_s` until it ends."""
    timer: asyncio.TimerHandle

    def again() -> None:
        nonlocal timer
        timer = loop.call_later(every_s, again)
        report()

    timer = loop.call_later(after_s, again)
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def warn_if_start_is_slow(loop: asyncio.AbstractEventLoop, why: Callable[[], str], limit_s: float) -> Iterator[None]:
    """Log a warning while a start with a timeout of `limit_s` seconds is slow, and when it is cancelled.

    `why` returns what it waits for.
    """
    begun = loop.time()

    def report() -> None:
        _logger.warning("%s; trying for %.0f s more", why(), max(0.0, begun + limit_s - loop.time()))

    try:
        with repeat_while_slow(loop, report, after_s=START_QUIET_S):
            yield
    except asyncio.CancelledError:
        _logger.warning("The start was cancelled after %.1f s: %s", loop.time() - begun, why())
        raise
