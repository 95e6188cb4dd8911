"""What became of records whose outcome is unknown: asked in the sending process while it goes on sending."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from integration.chaos.clients import FindOut
from integration.chaos.ledger import Finding, Found, Ledger, Place
from integration.chaos.modes import DOOMED

__all__ = ["RESOLVE_S", "BytesRead", "Resolving"]

_ASK_S: Final = 30.0
RESOLVE_S: Final = 2 * _ASK_S + 5.0
"""How long `Resolving.end` takes at most."""


class Resolving:
    """Asks about each record as soon as its outcome is unknown; where that did not help, once more at the end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._asking: dict[asyncio.Task[None], tuple[Place, int]] = {}
        self._ending = asyncio.Event()

    def ask(self, place: Place, sequence: int, find_out: FindOut) -> None:
        """Find out, in the background, what became of a record whose outcome was told just now."""
        asking = asyncio.create_task(self._ask(place, sequence, find_out))
        self._asking[asking] = place, sequence

    async def _ask(self, place: Place, sequence: int, find_out: FindOut) -> None:
        since = time.monotonic()
        finding = await find_out(_ASK_S)
        if finding.found is Found.OPEN:
            await self._ending.wait()
            finding = (await find_out(_ASK_S))._replace(asked=2)
        self._ledger.findings[place, sequence] = finding._replace(seconds=time.monotonic() - since)

    def places(self) -> set[Place]:
        """The partitions with records that are not found out about yet, and that a later record can decide about."""
        places = {place for asking, (place, _) in self._asking.items() if not asking.done()}
        return {place for place in places if place.topic != DOOMED}

    async def end(self) -> None:
        """Ask for the last time; raises what went wrong in the asking."""
        self._ending.set()
        if not self._asking:
            return
        ended, hung = await asyncio.wait(self._asking, timeout=RESOLVE_S)
        for asking in hung:
            self._ledger.findings[self._asking[asking]] = Finding(Found.OPEN, reason="no answer")
            asking.cancel()
        for asking in ended:
            asking.result()


class BytesRead(logging.Handler):
    """Notes how many bytes each pass over a log read, as aioprod logs it."""

    def __init__(self, bytes_read: list[int]) -> None:
        super().__init__(logging.DEBUG)
        self._bytes_read = bytes_read

    def listen(self) -> None:
        """Hear what the producer logs, and let nobody else hear it."""
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
