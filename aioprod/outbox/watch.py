"""Looking at a table now and then in the background, for its health and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aioprod.errors import AioprodError
from aioprod.outbox.health import OutboxHealth
from aioprod.outbox.meters import OutboxMetrics

__all__ = ["COUNTED_MAX", "Waiting", "Watch"]

_EVERY_S: Final = 5.0
COUNTED_MAX: Final = 1000
"""How many rows a look counts, as counting a large backlog takes long and holds a snapshot; ids say about the rest."""


class Waiting(NamedTuple):
    """What a look has found."""

    rows: int
    oldest_age_s: float
    held_by: str | None = None

    @classmethod
    def of(cls, found: tuple[int, int | None, int | None], age_s: float | None, held_by: str | None = None) -> Waiting:
        """From how many rows were counted, the first id of these, and the last one of all."""
        count, first, last = found
        if count > COUNTED_MAX and first is not None and last is not None:
            count = last - first + 1
        return cls(count, max(0.0, age_s or 0.0), held_by)


class Watch:
    """Has what was seen last, and the table's metrics."""

    def __init__(self, look: Callable[[], Awaitable[Waiting]], held_age_s: Callable[[], float] = lambda: 0.0) -> None:
        self._look = look
        self._held_age_s = held_age_s
        self._seen = Waiting(0, 0.0)
        self._seen_at: float | None = None
        self._error: AioprodError | None = None
        self._task: asyncio.Task[None] | None = None
        self.metrics: Final = OutboxMetrics(self.health)

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run(), name="aioprod outbox looks")

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def health(self) -> OutboxHealth:
        """What was seen last."""
        seen_age_s = None if self._seen_at is None else time.monotonic() - self._seen_at
        held_age_s = self._held_age_s()
        rows, oldest_age_s, held_by = self._seen
        return OutboxHealth(rows, oldest_age_s, held_by if held_age_s else None, held_age_s, seen_age_s, self._error)

    async def _run(self) -> None:
        while True:
            try:
                self._seen = await self._look()
            except AioprodError as error:
                self._error = error
            else:
                self._seen_at, self._error = time.monotonic(), None
            await asyncio.sleep(_EVERY_S)
