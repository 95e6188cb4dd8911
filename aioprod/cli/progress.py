"""The progress of a command on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

from aioprod.console.terminal import redraws

__all__ = ["Progress"]

_EVERY_S: Final = 0.5
_CLEAR_LINE: Final = "\r\x1b[2K"


class Progress:
    """One line that is written over, at most twice a second; nothing is written where nothing can be redrawn."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._is_watched = redraws(stream)
        self._next = clock() + _EVERY_S
        self._is_shown = False

    def show(self, line: Callable[[], str]) -> None:
        """Show what `line` returns, if it is time for the next one."""
        if not self._is_watched or (now := self._clock()) < self._next:
            return
        self._next = now + _EVERY_S
        self._stream.write(f"{_CLEAR_LINE}{line()}")
        self._stream.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Remove the line, so that other text can follow."""
        if self._is_shown:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._is_shown = False
