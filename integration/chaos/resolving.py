"""Resolving records whose outcome is unknown, in the sending process while it continues to send."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from integration.chaos.clients import FindOut
from integration.chaos.ledger import Finding, Found, Ledger, Place
from integration.chaos.modes import DOOMED

__all__ = ["RESOLVE_S", "BytesRead", "Resolving"]

_CALL_S: Final = 30.0
RESOLVE_S: Final = 2 * _CALL_S + 5.0
"""How long `Resolving.end` takes at most."""


class Resolving:
    """Resolves each record as soon as its outcome is unknown; one that stays unknown is resolved again at the end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tasks: dict[asyncio.Task[None], tuple[Place, int]] = {}
        self._ending = asyncio.Event()

    def begin(self, place: Place, sequence: int, find_out: FindOut) -> None:
        """Resolve a record in the background."""
        task = asyncio.create_task(self._resolve(place, sequence, find_out))
        self._tasks[task] = place, sequence

    async def _resolve(self, place: Place, sequence: int, find_out: FindOut) -> None:
        since = time.monotonic()
        finding = await find_out(_CALL_S)
        if finding.found is Found.OPEN:
            await self._ending.wait()
            finding = (await find_out(_CALL_S))._replace(calls=2)
        self._ledger.findings[place, sequence] = finding._replace(seconds=time.monotonic() - since)

    def places(self) -> set[Place]:
        """The partitions with records that are still unknown, and that a later record can decide about."""
        places = {place for task, (place, _) in self._tasks.items() if not task.done()}
        return {place for place in places if place.topic != DOOMED}

    async def end(self) -> None:
        """Call for the last time; raises what a call raised."""
        self._ending.set()
        if not self._tasks:
            return
        ended, hung = await asyncio.wait(self._tasks, timeout=RESOLVE_S)
        for task in hung:
            self._ledger.findings[self._tasks[task]] = Finding(Found.OPEN, reason="no answer")
            task.cancel()
        for task in ended:
            task.result()


class BytesRead(logging.Handler):
    """Notes how many bytes each pass over a log read, as aioprod logs it."""

    def __init__(self, bytes_read: list[int]) -> None:
        super().__init__(logging.DEBUG)
        self._bytes_read = bytes_read

    def listen(self) -> None:
        """Take all lines of the producer's logger, which no other handler gets."""
        logger = logging.getLogger("aioprod.producer")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take the lines about a pass, whose first value is the count."""
        if "were read to resolve" in record.msg and isinstance(record.args, tuple):
            count = record.args[0]
            assert isinstance(count, int)
            self._bytes_read.append(count)
