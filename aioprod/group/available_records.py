"""Records that are returned without a coroutine for each step: most were decoded with the one before."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from aioprod.consumed_record import ConsumedRecord
from aioprod.group.open_batch import OpenBatch

__all__ = ["AvailableRecords"]


class AvailableRecords:
    """Gives the next records of one batch, until a time or until something else comes first.

    The fetcher offers a batch after a record that it has returned itself. When something else has to be done before the
    next record, the batch is withdrawn. The next record then comes by a poll, which does that, and the fetcher offers
    the batch again. It is for one event loop; a call in another one is noticed when the time ends.
    """

    __slots__ = ("_batch", "_clock", "_until", "last", "returned")

    def __init__(self) -> None:
        self._batch: OpenBatch | None = None
        self._clock: Callable[[], float] = time.monotonic
        self._until = -math.inf
        self.returned = 0
        """How many records it has given."""
        self.last: ConsumedRecord | None = None
        """The record that was returned last, by this or by a poll; None when that was a list, or nothing yet."""

    def offer(self, batch: OpenBatch, clock: Callable[[], float], until: float) -> None:
        """Give records of this batch, which is open, while `clock` is before `until`."""
        self._batch = batch
        self._clock = clock
        self._until = until

    def withdraw(self) -> None:
        """Give no more records until the next offer."""
        self._batch = None

    def take(self) -> ConsumedRecord | None:
        """The next record, with the position of its batch moved behind it; None when the record has to come by a poll.

        Errors about a record are raised by the poll.
        """
        batch = self._batch
        if batch is None or batch.records is None or self._clock() >= self._until:
            return None
        record = batch.records.step()
        if record is not None:
            self.last = record
            batch.offset = record.offset + 1
            self.returned += 1
        return record
