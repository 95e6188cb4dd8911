"""What happens when records are on disk, could not be kept, or were set aside: callers, callbacks and `on_error`."""

from __future__ import annotations

import asyncio
from typing import Final

from aioprod._logger import Logger
from aioprod.errors import AioprodError
from aioprod.interceptors import Interceptors
from aioprod.metrics import Counter
from aioprod.relay.columns import Row
from aioprod.spool.entries import EntryReader
from aioprod.spool.gathering import Forming
from aioprod.spool.kept import Kept
from aioprod.spool.reading import Position, number_of
from aioprod.spool.source import SpoolSource
from aioprod.spool.waiters import Watched, call
from aioprod.types import DeliveryCallback, ErrorCallback, RecordMetadata

__all__ = ["CallbackWaiter", "FailedRecords", "KeptWaiter", "SetAside"]

_logger = Logger("aioprod.spool")


class KeptWaiter:
    """Waits until some records are on disk; its future gets a `Kept` of the last one."""

    def __init__(self, records: int, watched: Watched | None) -> None:
        self.future: Final[asyncio.Future[Kept]] = asyncio.get_running_loop().create_future()
        self._last: Final = records - 1
        self._watched = watched
        """None where another process brings records to Kafka, or nothing does."""

    def kept(self, first: Position) -> None:
        """They are on the disk, with numbers from this one on."""
        if not self.future.done():
            number = first.number + self._last
            kept = Kept(Position(number, first.name).to_bytes(), self._watched)
            if self._watched is not None:
                self._watched.watch(number, kept)
            self.future.set_result(kept)

    def failed(self, error: AioprodError) -> None:
        """They are not, or that is not known."""
        if not self.future.done():
            self.future.set_exception(error.again())


class CallbackWaiter:
    """A callback is called when its record is in Kafka."""

    def __init__(self, callback: DeliveryCallback, watched: Watched) -> None:
        self._callback = callback
        self._watched = watched

    def kept(self, first: Position) -> None:
        """The record is on the disk."""
        self._watched.call_back(first.number, self._callback)

    def failed(self, error: AioprodError) -> None:
        """It is not, or that is not known."""
        call("The callback", self._callback, None, error.again())


class FailedRecords:
    """Reports the records of a group that could not be kept."""

    def __init__(self, interceptors: Interceptors, on_error: ErrorCallback | None, failed: Counter) -> None:
        self._interceptors = interceptors
        self._on_error = on_error
        self._failed = failed

    def report(self, forming: Forming, error: AioprodError, seed: int) -> None:
        """Report those that no caller waits for to `on_error`, and all to the interceptors.

        `seed` is what the checksums of the spool begin with.
        """
        self._failed.add(forming.records)
        watched = {number for index, records, _ in forming.waiters for number in range(index, index + records)}
        unwatched = forming.records - len(watched)
        if unwatched:
            _logger.error("%d records that no caller waits for could not be kept: %s", unwatched, error)
        data = b"".join(forming.parts)
        rows = EntryReader(seed).read_all(data, 0, len(data), forming.records)
        for number in range(forming.records):
            record = rows.record(number)
            if number not in watched and self._on_error is not None:
                call("on_error", self._on_error, error, record)
            if self._interceptors:
                self._interceptors.on_send_error(record, record.partition, error)


class SetAside:
    """Sets a record aside that brokers will never take, and reports it to the callers that wait for it."""

    def __init__(self, source: SpoolSource, watched: Watched, on_error: ErrorCallback | None) -> None:
        self._source = source
        self._watched = watched
        self._on_error = on_error

    async def __call__(self, row: Row, error: AioprodError) -> None:
        """Write the record to the file of those that were set aside; raises SpoolError."""
        await self._source.set_aside(row, error)
        record, position = row
        partition = -1 if record.partition is None else record.partition
        place = RecordMetadata(record.topic, partition, offset=-1, timestamp=-1)
        is_reported = self._watched.set_aside(number_of(position), place, error)
        if not is_reported and self._on_error is not None:
            call("on_error", self._on_error, error, record)
