"""A spool as the source of a relay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from aioprod._logger import Logger
from aioprod._short_reprs import printable
from aioprod.errors import AioprodError, SpoolError
from aioprod.relay.columns import Row, Rows
from aioprod.spool.aside import ASIDE, Aside
from aioprod.spool.reading import number_of
from aioprod.spool.storage import unusable
from aioprod.spool.store import Store

__all__ = ["SpoolSource"]

_logger = Logger("aioprod.spool")


class SpoolSource:
    """The records of a store, without those that were set aside."""

    def __init__(self, store: Store, aside: Aside, on_progress: Callable[[], None]) -> None:
        self._store = store
        self._aside = aside
        self._on_progress = on_progress
        """Called when records were delivered or set aside, and when there are no more."""
        self._delivered: bytes | None = None
        """Up to here records are in Kafka, as far as the relay knows."""
        self._read_to: tuple[bytes | None, int] = b"", 0
        """The position behind which the last read has found nothing, and the number up to which it has looked."""

    @classmethod
    async def of(cls, store: Store, on_progress: Callable[[], None]) -> Self:
        """The source of a store; raises SpoolError where the file of what was set aside can't be read."""
        aside = Aside(store.files)
        try:
            await store.run(aside.load)
        except OSError as error:
            raise unusable(store.name, error) from error
        return cls(store, aside, on_progress)

    # --- what is known

    @property
    def is_empty(self) -> bool:
        """Whether all that there was at the last look is in Kafka, or was set aside."""
        return self._read_to[0] == self._delivered

    @property
    def aside_records(self) -> int:
        """How many records were set aside."""
        return len(self._aside.positions)

    def left(self, number: int) -> int:
        """How many records up to this number are to be brought to Kafka, as far as the folder knows."""
        if self.is_empty and number <= self._read_to[1]:
            return 0
        delivered = self._store.delivered_number
        return number - delivered - self._aside.between(delivered, number)

    # --- a relay's source

    @property
    def owner(self) -> str:
        """The folder's id."""
        return self._store.owner

    async def read(self, after: bytes | None, limit: int) -> Rows:
        """The next records that are to be sent."""
        begin = after
        while rows := await self._store.read(after, limit):
            if not self._aside.between(rows.numbers[0] - 1, rows.numbers[-1]):
                return rows
            kept = [row for row in rows if row[1] not in self._aside.positions]
            if kept:
                return kept
            after = rows.position(-1)
        self._read_to = begin, self._store.passed
        self._on_progress()
        return rows

    async def noted(self) -> bytes | None:
        """Up to where records are in Kafka, as the relay of this process knows, or the folder's note."""
        note = self._store.delivered_position
        return self._delivered if self._delivered is not None or note is None else note.to_bytes()

    async def wait(self) -> None:
        """Return when there may be more."""
        await self._store.wait()

    async def delivered(self, position: bytes) -> None:
        """Everything up to here is in Kafka for good."""
        self._delivered = position
        await self._store.delivered(position)
        self._on_progress()

    async def set_aside(self, row: Row, error: AioprodError) -> None:
        """Write a record to the file of those that brokers will never take; raises SpoolError."""
        record, position = row
        try:
            await self._store.run(lambda: self._aside.add(record, position, error))
        except OSError as failure:
            raise SpoolError(f"A record could not be written to {ASIDE}: {failure.strerror or failure}.") from failure
        _logger.warning(
            "Record %d of the spool, for topic %r, was set aside in %s: %s",
            number_of(position),
            record.topic,
            ASIDE,
            printable(str(error), 500),
        )
        self._on_progress()
