"""Logs failures of callbacks: why, once for each callback and kind of failure, and then how often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aioprod._log_rate_limit import WINDOW_S, LogRateLimit
from aioprod._logger import Logger
from aioprod._user_code import raise_later
from aioprod._words import counted, seconds_of
from aioprod.config import describe

__all__ = ["CallbackFaults"]

_logger = Logger("aioprod.producer")


class CallbackFaults:
    """Logs the first failure of a kind with its traceback, ten at most in ten seconds, and counts the others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._limit = LogRateLimit()
        self._repeated: dict[tuple[str, str], tuple[float, int]] = {}

    def raised(self, name: str, callback: Any, error: BaseException, record: str) -> None:
        """A callback, named `name` in the call that brought it, raised an error; `record` says for which record."""
        raise_later(error)
        what = f"The {name} callback {_described(callback)}"
        self._log(what, f"raised {type(error).__qualname__}", f"for {record}", error)

    def returned(self, name: str, callback: Any, given: object, record: str) -> None:
        """A callback returned something; a coroutine is closed, as nothing awaits it."""
        if asyncio.iscoroutine(given):
            given.close()
            what = f"The {name} callback {_described(callback)}"
            hint = "which nothing awaits. Hint: Let it start a task for what has to be awaited"
            self._log(what, "returned a coroutine", f"for {record}, {hint}", None)

    def close(self) -> None:
        """Log what was counted and not logged yet."""
        now = self._clock()
        for (what, how), (since, count) in self._repeated.items():
            self._log_count(what, how, count, now - since)
        self._repeated.clear()

    def _log(self, what: str, how: str, where: str, error: BaseException | None) -> None:
        now = self._clock()
        known = self._repeated.get((what, how))
        if known is None:
            self._repeated[what, how] = now, 0
            is_logged = self._limit.take("failures of callbacks", now).is_logged
            _logger.log(logging.ERROR if is_logged else logging.DEBUG, "%s %s %s", what, how, where, exc_info=error)
            return
        since, count = known[0], known[1] + 1
        if now - since >= WINDOW_S:
            self._log_count(what, how, count, now - since)
            since, count = now, 0
        self._repeated[what, how] = since, count

    def _log_count(self, what: str, how: str, count: int, seconds: float) -> None:
        if count:
            _logger.error("%s %s %s more in %s", what, how, counted(count, "time"), seconds_of(seconds))


def _described(callback: Any) -> str:
    """The name of a callback: of the function behind a partial, of the class of a callable object."""
    return describe(getattr(callback, "func", callback))
