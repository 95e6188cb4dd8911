"""Deleting rows that are in Kafka: in the background, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aioprod._logger import Logger
from aioprod.errors import AioprodError
from aioprod.outbox.positions import Position

__all__ = ["ROWS_MAX", "Deletions"]

_logger = Logger("aioprod.outbox")

ROWS_MAX: Final = 10_000
"""Rows that one transaction deletes, so that writers don't wait for long."""
_EVERY_S: Final = 1.0
"""The pause between two deletions: what is delivered meanwhile is deleted at once."""


class Deletions:
    """Brings a table to the last position that was delivered. A failure is raised by the next call."""

    def __init__(self, delete: Callable[[Position], Awaitable[None]]) -> None:
        self._delete = delete
        self._target: Position | None = None
        self._last: Position | None = None
        """What was delivered last; the table's note says so when rows are deleted."""
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def delivered(self, position: Position) -> None:
        """Delete the rows up to this one soon; raises what the last deletion has raised."""
        self._target = self._last = position
        self.check()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="aioprod outbox deletes")

    @property
    def last_id(self) -> int:
        """That of the last row that this process has delivered, 0 before the first one."""
        return 0 if self._last is None else self._last.id

    def noted(self, note: Position | None) -> bytes | None:
        """The last position that was delivered: by this process, or by the table's note, which comes later."""
        known = [position for position in (self._last, note) if position is not None]
        return max(known).to_bytes() if known else None

    def check(self) -> None:
        """Raise what the last deletion has raised, once: a relay starts again then, and delivers its position again."""
        task = self._task
        if task is not None and task.done():
            self._task = None
            task.result()

    async def close(self) -> None:
        """Delete what is left, without a pause. Where that fails, the next relay does it."""
        self._closing.set()
        if self._task is not None:
            try:
                await self._task
            except AioprodError as error:
                _logger.warning("Rows that are in Kafka were not deleted: %s", error)

    async def _run(self) -> None:
        while (target := self._target) is not None:
            await self._delete(target)
            if self._target == target:
                self._target = None
            if not self._closing.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), _EVERY_S)
