"""`pytest -p tests.support.bent_timers`: timers of event loops fire up to a millisecond early, or up to 20 ms late.

A loop may do both: uvloop rounds times to milliseconds, and a machine with other work is late. A test, or the product,
that takes a timer for a clock fails here. And each start logs that it is slow, as one on a busy machine does, unless
the test uses the fixture `patient`. Simulated loops stay as they are.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import uvloop

from aioprod.net import slow_calls

__all__ = ["bent"]

EARLY_MAX_S: Final = 0.001
LATE_MAX_S: Final = 0.020

_source = random.Random(0)


def bent(delay_s: float) -> float:
    """The delay after which a timer that was set for `delay_s` fires."""
    if delay_s <= 0:
        return delay_s
    if _source.random() < 0.5:
        return max(0.0, delay_s - EARLY_MAX_S * _source.random())
    return delay_s + LATE_MAX_S * _source.random()


class BentLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, whose `call_later` goes by way of `call_at`."""

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As asyncio's, at a bent time."""
        now = self.time()
        return super().call_at(now + bent(when - now), callback, *args, context=context)


class BentUvloop(uvloop.Loop):
    """uvloop's, whose `call_at` goes by way of `call_later`."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """As uvloop's, at a bent time."""
        return super().call_later(bent(delay), callback, *args, context=context)


START_QUIET_S: Final = slow_calls.START_QUIET_S
_repeat_while_slow: Final = slow_calls.repeat_while_slow


def _slow_at_once(
    loop: asyncio.AbstractEventLoop,
    report: Callable[[], None],
    *,
    after_s: float,
    every_s: float = slow_calls.EVERY_S,
) -> AbstractContextManager[None]:
    """As `repeat_while_slow`, for a start that is slow from the beginning."""
    if after_s == START_QUIET_S and isinstance(loop, (BentLoop, BentUvloop)):
        after_s = 0.0
    return _repeat_while_slow(loop, report, after_s=after_s, every_s=every_s)


setattr(slow_calls, "repeat_while_slow", _slow_at_once)  # noqa: B010

# Loops are created by these names.
setattr(type(asyncio.get_event_loop_policy()), "_loop_factory", BentLoop)  # noqa: B010  # typeshed does not know it
setattr(uvloop, "Loop", BentUvloop)  # noqa: B010
