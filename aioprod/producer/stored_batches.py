"""Reads the part of a log in which unknown batches are, or nowhere, and says which of them are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from random import Random
from typing import Final
from uuid import UUID

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.config import ProducerConfig
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    StillUnknownError,
)
from aioprod.producer.batching.search import Search
from aioprod.producer.batching.unknown import AGAIN, RECREATED, Decision
from aioprod.reader.config import ReaderConfig
from aioprod.reader.fetching import FetchedBatch, decompressed
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.reader.partition_log import PartitionLog
from aioprod.records import ParsedBatch
from aioprod.types import TopicPartition

__all__ = ["Reading", "read_for"]

_logger = Logger("aioprod.producer")

_PAUSE_S: Final = 0.2
_PAUSES_MAX: Final = 25
"""For how long, and how often, to wait for the high watermark of a new leader to pass an acknowledged batch."""
_INLINE_MAX: Final = 1000
"""Records of a batch up to which they are read on the event loop; about a millisecond's worth."""


async def read_for(decision: Decision, config: ProducerConfig, *, clock: Callable[[], float], random: Random) -> None:
    """Give each batch of a decision its verdict, or say that there will be none.

    `clock` is in monotonic seconds, `random` is for jitter. Raises StillUnknownError if a later call may find out more.
    """
    first = decision.batches[0]
    tp = TopicPartition(first.topic, first.partition)
    topic_id = None if first.topic_id is None else UUID(bytes=first.topic_id)
    # Leaders are read, whose logs decide: without a rack no follower is named. Callers have time limits of their own.
    settings = ReaderConfig.shared_with(config, client_rack="")
    try:
        log = PartitionLog(tp, topic_id, settings, "producer that resolves", clock=clock, random=random)
        async with log:
            reading = Reading(log, decision, config.resolve_max_bytes)
            try:
                await reading.run()
            finally:
                batches = counted(len(decision.batches), "batch")
                _logger.debug("%d bytes of %s-%d were read to resolve %s", reading.bytes_read, *tp, batches)
    except StillUnknownError:
        raise
    except AioprodError as error:
        why = error.message.rstrip(".")
        if isinstance(error, BrokerError) and error.code == ErrorCode.INCONSISTENT_TOPIC_ID:
            for unknown in decision.batches:
                unknown.hopeless = RECREATED
        elif isinstance(error, AuthorizationError):
            raise first.still_unknown("no right", f"this client may not read it: {why}", error.hint) from error
        else:
            raise first.still_unknown("unanswered", f"its partition could not be read: {why}", AGAIN) from error


class Reading:
    """What is read of the log for a decision: up to `bytes_max` bytes."""

    def __init__(self, log: PartitionLog, decision: Decision, bytes_max: int) -> None:
        self._log = log
        self._decision = decision
        self._bytes_max = bytes_max
        self.bytes_read = 0
        """Of the batches that were compared; what a response holds beyond them is not counted."""

    async def run(self) -> None:
        """Read, and write down what was found out; raises StillUnknownError and what `PartitionLog` raises."""
        await self._wait_for_high_watermark()
        earliest = await self._log.offset(EARLIEST)
        before = self._decision.before
        if before is not None:
            search = await self._search(max(before.offset, earliest), is_certain=before.offset >= earliest)
        else:
            start = max(earliest, await self._start_by_time())
            search = await self._search(start, is_certain=start == 0)
            if start > earliest and not search.is_diverted and search.complete_found():
                # They may be before: compaction may have removed the records by which times are looked up, or the
                # log has the broker's times.
                search = await self._search(earliest, is_certain=earliest == 0)
        unended = search.conclude()
        if unended:
            raise unended[0].still_unknown("not ended", "it is stored, and its transaction has not ended", AGAIN)

    async def _wait_for_high_watermark(self) -> None:
        """Wait until consumers see the deciding batch: a leader that was just elected may not know how far it is."""
        by = self._decision.by.offset
        pauses = 0
        while (end := await self._log.offset(LATEST)) <= by:
            if pauses == _PAUSES_MAX:
                why = f"offset {by} was acknowledged, and the partition ends at {end}"
                raise self._decision.batches[0].still_unknown("unclean election", why, AGAIN)
            pauses += 1
            await asyncio.sleep(_PAUSE_S)

    async def _start_by_time(self) -> int:
        """An offset that none of the batches is before, if all records are there, with the times of the producer."""
        oldest = min(unknown.max_timestamp for unknown in self._decision.batches)
        if oldest < 0:
            return 0
        at = await self._log.offset(oldest)
        return self._decision.by.offset if at < 0 else min(at, self._decision.by.offset)

    async def _search(self, start: int, *, is_certain: bool) -> Search:
        """Read from `start` to the deciding batch, and on to the end of a transaction that was found."""
        search = Search(self._decision, start, is_certain=is_certain)
        await self._read(search, self._decision.by.offset + 1)
        if search.is_decided and not search.is_done():
            await self._read(search, await self._log.offset(LATEST))
        return search

    async def _read(self, search: Search, end: int) -> None:
        async with aclosing(self._log.batches(search.position, end)) as responses:
            async for response in responses:
                for fetched in response:
                    self.bytes_read += fetched.batch.size
                    unknown = search.take(fetched.batch)
                    if unknown is not None:
                        search.found[unknown].records.update(await _records(fetched, unknown.size_max))
                if search.is_done():
                    return
                if self.bytes_read >= self._bytes_max and search.position < end:
                    left = end - search.position
                    why = f"after resolve.max.bytes={self._bytes_max} bytes {left} offsets are left to be read"
                    raise self._decision.batches[0].still_unknown("too many bytes", why, "Raise resolve.max.bytes.")


async def _records(fetched: FetchedBatch, size_max: int) -> dict[int, tuple[int, int, int]]:
    """Timestamp and sizes of each record of a batch by its place there; -1 for null.

    `size_max` is in bytes, uncompressed; raises CorruptRecordError.
    """
    batch = (await decompressed(fetched, size_max)).batch
    if fetched.is_large or batch.count > _INLINE_MAX:
        return await asyncio.to_thread(_sizes, batch)
    return _sizes(batch)


def _sizes(batch: ParsedBatch) -> dict[int, tuple[int, int, int]]:
    return {
        record.offset - batch.base_offset: (
            record.timestamp,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
        )
        for record in batch.records()
    }
