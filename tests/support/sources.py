"""A source for relays: a list of records, whose positions are the numbers of records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aioprod import ProducerRecord
from aioprod.errors import MarkerError

__all__ = ["ListSource", "numbers"]


class ListSource:
    """Position `b"7"` is that of the seventh record. What was delivered is dropped, as sources do."""

    def __init__(self, owner: str = "shop") -> None:
        self.owner = owner
        self.records: list[ProducerRecord] = []
        self.dropped = 0
        """How many records were delivered, and can't be read any more."""
        self.delivered_positions: list[bytes] = []
        self._more = asyncio.Event()

    def put(self, *records: ProducerRecord) -> None:
        self.records += records
        self._more.set()

    def put_numbers(self, count: int, topic: str = "t") -> None:
        """Records whose values are their numbers in the source."""
        begin = len(self.records)
        self.put(*(ProducerRecord(topic, b"%d" % n, key=b"%d" % (n % 7)) for n in range(begin, begin + count)))

    async def read(self, after: bytes | None, limit: int) -> Sequence[tuple[ProducerRecord, bytes]]:
        begin = 0 if after is None else int(after)
        if begin > len(self.records) or begin < self.dropped:
            raise MarkerError(f"Position {after!r} is none of {self.owner!r}: records up to {self.dropped} are gone.")
        self._more.clear()
        return [(record, b"%d" % (begin + n)) for n, record in enumerate(self.records[begin : begin + limit], 1)]

    async def wait(self) -> None:
        await self._more.wait()

    async def delivered(self, position: bytes) -> None:
        self.delivered_positions.append(position)
        self.dropped = max(self.dropped, int(position))

    async def until_delivered(self) -> None:
        while self.dropped < len(self.records):
            await asyncio.sleep(0.001)


def numbers(values: Sequence[bytes | None]) -> list[int]:
    """The numbers that records of `put_numbers` have as values."""
    return [int(value or b"-1") for value in values]
