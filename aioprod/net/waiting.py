"""What the log is told of a call that takes long, while it waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["EVERY_S", "START_QUIET_S", "told_if_slow", "told_meanwhile"]

_logger = logging.getLogger("aioprod.net")

START_QUIET_S: Final = 1.0
"""After so long a start says what it waits for: one with a cluster that is there takes some milliseconds."""

EVERY_S: Final = 10.0
"""How often it is said again."""


@contextmanager
def told_meanwhile(
    loop: asyncio.AbstractEventLoop, tell: Callable[[], None], *, after_s: float, every_s: float = EVERY_S
) -> Iterator[None]:
    """Call `tell` when the block has taken `after_s` seconds, and again every `every_s` until it ends."""
    timer: asyncio.TimerHandle

    def again() -> None:
        nonlocal timer
        timer = loop.call_later(every_s, again)
        tell()

    timer = loop.call_later(after_s, again)
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def told_if_slow(loop: asyncio.AbstractEventLoop, why: Callable[[], str], limit_s: float) -> Iterator[None]:
    """Warn of a start that gets nowhere within `limit_s` seconds, or was cancelled: `why` says what it waits for."""
    begun = loop.time()

    def tell() -> None:
        _logger.warning("%s; trying for %.0f s more", why(), max(0.0, begun + limit_s - loop.time()))

    try:
        with told_meanwhile(loop, tell, after_s=START_QUIET_S):
            yield
    except asyncio.CancelledError:
        _logger.warning("The start was cancelled after %.1f s: %s", loop.time() - begun, why())
        raise
