"""Callers that wait for room: in a line for each topic, in the order of their calls, whose first ones take turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVarTuple, Unpack

from aioprod.compat.aiokafka.sending import SendingProducer
from aioprod.errors import BufferFullError

__all__ = ["Turns"]

_Record = TypeVarTuple("_Record")

_EVERYONE: Final = ""
"""The line of the first ones, as far as their topic is not stuck; no topic has this name."""


class _Line:
    """The callers of one line."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0
        """How many there are."""


class Turns:
    """Has records accepted, each after all for its topic that were there before it.

    What waits for the share of what is stuck holds up its own topic only.
    """

    def __init__(self, producer: SendingProducer, timeout_s: float) -> None:
        self._producer = producer
        self._timeout_s = timeout_s
        self._lines: dict[str, _Line] = {}
        """Those in which a caller waits."""

    async def accepted(self, accept: Callable[[str, Unpack[_Record]], None], topic: str, *record: *_Record) -> None:
        """Call `accept` with a record until there is room for it; raises BufferFullError when there is none in time."""
        if topic not in self._lines and _EVERYONE not in self._lines:
            with suppress(BufferFullError):
                return accept(topic, *record)
        full: BufferFullError | None = None
        try:
            async with asyncio.timeout(self._timeout_s), self._in_line(topic):
                while True:
                    async with self._in_line(_EVERYONE):
                        while True:
                            try:
                                return accept(topic, *record)
                            except BufferFullError as error:
                                full = error
                            if self._producer.is_stuck_full:
                                break
                            await self._producer.drain()
                    await self._producer.drain()
        except TimeoutError:
            raise full or BufferFullError(f"Other records waited for room for {self._timeout_s:g} s.") from None

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
