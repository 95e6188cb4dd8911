"""Callers that wait for room, in the order of their calls: in one line, and in one for each topic that is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVarTuple, Unpack

from aioprod.compat.aiokafka.sending import SendingProducer
from aioprod.errors import BufferFullError

__all__ = ["Turns"]

_Record = TypeVarTuple("_Record")

_EVERYONE: Final = ""
"""The line of those that wait for what others hold; no topic has this name."""


class _Line:
    """The callers of one line."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0
        """How many there are."""


class Turns:
    """Has records accepted, each after all that were there before it in its line."""

    def __init__(self, producer: SendingProducer, timeout_s: float) -> None:
        self._producer = producer
        self._timeout_s = timeout_s
        self._lines: dict[str, _Line] = {}
        """Those in which a caller waits."""

    async def accepted(self, accept: Callable[[str, Unpack[_Record]], None], topic: str, *record: *_Record) -> None:
        """Call `accept` with a record until there is room for it; raises BufferFullError when there is none in time."""
        name = _EVERYONE if _EVERYONE in self._lines else topic
        if name not in self._lines:
            try:
                return accept(topic, *record)
            except BufferFullError:
                name = self._line_of(topic)
        full: BufferFullError | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    async with self._in_line(name):
                        while True:
                            try:
                                return accept(topic, *record)
                            except BufferFullError as error:
                                full = error
                            if self._line_of(topic) != name:
                                break
                            await self._producer.drain()
                    name = self._line_of(topic)
        except TimeoutError:
            raise full or BufferFullError(f"Other records waited for room for {self._timeout_s:g} s.") from None

    def _line_of(self, topic: str) -> str:
        """The line for a record that just found no room."""
        return topic if self._producer.is_stuck_full else _EVERYONE

    @asynccontextmanager
    async def _in_line(self, name: str) -> AsyncIterator[None]:
        line = self._lines.setdefault(name, _Line())
        line.count += 1
        try:
            async with line.lock:
                yield
        finally:
            line.count -= 1
            if not line.count:
                del self._lines[name]
