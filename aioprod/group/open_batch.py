"""A batch of which some records were returned, and others were not yet."""

from __future__ import annotations

import asyncio

from aioprod.consumed_record import ConsumedRecord
from aioprod.reader.consumed_records import ConsumedRecords
from aioprod.reader.fetching import FetchedBatch, decompressed
from aioprod.records.table import TableReader
from aioprod.types import TopicPartition

__all__ = ["OpenBatch"]


class OpenBatch:
    """A batch whose records are being returned, or were until its partition was paused."""

    __slots__ = ("decompressing", "fetched", "offset", "reader", "record", "records")

    def __init__(self, fetched: FetchedBatch) -> None:
        self.fetched = fetched
        self.offset = fetched.start
        """The offset of the next record."""
        self.decompressing: asyncio.Task[FetchedBatch] | None = None
        """The task that decompresses a large batch, before it has `records`, or a `reader` into Arrow columns."""
        self.records: ConsumedRecords | None = None
        self.record: ConsumedRecord | None = None
        """Taken from the records, and being deserialized."""
        self.reader: TableReader | None = None

    @property
    def to_read(self) -> FetchedBatch:
        """What is left of the batch, decompressed if it is large; raises what the decompression has raised."""
        fetched = self.fetched if self.decompressing is None else self.decompressing.result()
        return fetched._replace(start=self.offset)

    def decompress(self) -> asyncio.Task[FetchedBatch]:
        """The task that decompresses a large batch, which begins with the first call."""
        if self.decompressing is None:
            self.decompressing = asyncio.get_running_loop().create_task(decompressed(self.fetched))
            self.decompressing.add_done_callback(_retrieve_exception)
        return self.decompressing

    def release(self) -> None:
        """Forget what a large batch was decompressed to: it is decompressed again when more of it is read."""
        if self.decompressing is not None:
            self.decompressing = self.records = self.record = self.reader = None

    @property
    def tp(self) -> TopicPartition:
        """Its partition."""
        return self.fetched.tp


def _retrieve_exception(future: asyncio.Future[FetchedBatch]) -> None:
    """Retrieve the exception of a future that may have no waiter, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
