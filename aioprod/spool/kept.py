"""Records that are on disk: what a sender gets, and how it waits for their places in Kafka."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from aioprod.errors import AioprodError, UsageError
from aioprod.types import RecordMetadata, SendResult

if TYPE_CHECKING:
    from aioprod.spool.waiters import Watched

__all__ = ["Kept", "KeptMany", "not_here"]


class Kept:
    """A record that is on disk. It will be in Kafka once, whatever becomes of the process."""

    __slots__ = ("__weakref__", "_error", "_place", "_waiters", "_watched", "position")

    def __init__(self, position: bytes, watched: Watched | None) -> None:
        self.position = position
        """Its place in the spool."""
        self._watched = watched
        """None where another process brings it to Kafka."""
        self._place: RecordMetadata | None = None
        self._error: AioprodError | None = None
        self._waiters: list[asyncio.Future[RecordMetadata]] = []

    async def stored(self) -> RecordMetadata:
        """Wait until the record is in Kafka for good, and return its place. It may be called at any time, and again.

        Raises the error that has set the record aside, or ended the relay; ProducerClosedError where the producer is
        closed before: the record stays on disk, and leaves with the next start. UsageError, at once, where another
        process brings the records to Kafka.
        """
        if self._place is not None:
            return self._place
        if self._error is not None:
            raise self._error.again()
        if self._watched is None:
            raise not_here("stored() can't be awaited")
        self._watched.check_running()
        waiter: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return await waiter

    def resolve(self, place: RecordMetadata) -> None:
        """It is in Kafka, at this place."""
        self._place = place
        for waiter in self._taken():
            waiter.set_result(place)

    def fail(self, error: AioprodError) -> None:
        """It was set aside: it will not be in Kafka."""
        self._error = error
        self.interrupt(error)

    def interrupt(self, error: AioprodError) -> None:
        """Nothing brings it to Kafka now."""
        for waiter in self._taken():
            waiter.set_exception(error.again())

    def _taken(self) -> list[asyncio.Future[RecordMetadata]]:
        waiters, self._waiters = self._waiters, []
        return [waiter for waiter in waiters if not waiter.done()]

    def __repr__(self) -> str:
        where = "" if self._place is None else f", in Kafka at {self._place}"
        return f"<Kept {self.position.decode()}{where}>"


def not_here(what: str) -> UsageError:
    """The error for what a producer can't do that leaves the way to Kafka to another process."""
    return UsageError(
        f"{what} here: another process brings the records of this spool to Kafka.",
        hint="Let the producer relay them itself: `relays=True`.",
    )


class KeptMany(SendResult):
    """The result of `send_many`: `count` records, the kept ones of which are on disk, and `failures` as (index, error).

    `offsets` is empty, as no record has one before it is in Kafka.
    """

    __slots__ = ("_last",)

    def __init__(self, count: int, last: Kept | None, failures: tuple[tuple[int, AioprodError], ...] = ()) -> None:
        super().__init__(count, {}, failures)
        self._last = last

    async def stored(self) -> Self:
        """Wait until all of them are in Kafka for good; raises what `Kept.stored` raises for the last one."""
        if self._last is not None:
            await self._last.stored()
        return self
