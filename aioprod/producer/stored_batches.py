"""Reads the part of a log in which unknown batches are, or nowhere, and says which of them are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from random import Random
from typing import Final
from uuid import UUID

from aioprod.config import ProducerConfig
from aioprod.config._base import settings_of
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    StillUnknownError,
    UnknownTopicError,
)
from aioprod.producer.batching.search import Search
from aioprod.producer.batching.unknown import RECREATED, Decision, UnknownBatch
from aioprod.reader.config import ReaderConfig
from aioprod.reader.fetching import FetchedBatch, decompressed
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.reader.partition_log import PartitionLog
from aioprod.types import TopicPartition

__all__ = ["read_for"]

_AGAIN: Final = "Call resolve() again."
_PAUSE_S: Final = 0.2
"""How long to wait for the high watermark of a new leader to pass a batch that was acknowledged."""


def _reader_config(config: ProducerConfig) -> ReaderConfig:
    """The settings of the producer, as far as a reader has them; leaders are read, whose logs decide."""
    shared = settings_of(ReaderConfig).keys() & config.explicit - {"client_rack"}
    given = {name: getattr(config, name) for name in shared}
    return ReaderConfig.from_options(**given, default_api_timeout_ms=config.resolve_timeout_ms)


async def read_for(decision: Decision, config: ProducerConfig, *, clock: Callable[[], float], random: Random) -> None:
    """Give each batch of a decision its verdict, or say that there will be none.

    `clock` is in monotonic seconds, `random` is for jitter. Raises StillUnknownError if a later call may find out more.
    """
    first = decision.batches[0]
    tp = TopicPartition(first.topic, first.partition)
    try:
        settings = _reader_config(config)
        async with PartitionLog(settings, "producer that resolves", clock=clock, random=random) as log:
            await _Reading(log, tp, decision, config.resolve_max_bytes).run()
    except AioprodError as error:
        if isinstance(error, StillUnknownError):
            raise
        why = error.message.rstrip(".")
        if isinstance(error, AuthorizationError):
            raise _stopped(tp, "no right", f"this client may not read it: {why}", hint=error.hint) from error
        raise _stopped(tp, "unanswered", f"its partition could not be read: {why}") from error


def _stopped(
    tp: TopicPartition, reason: str, why: str, *, hint: str | None = "Call resolve() again."
) -> StillUnknownError:
    """The error for all records of a decision: a later call may find out more."""
    return StillUnknownError(
        f"It is not known whether the record of {tp.topic}-{tp.partition} is stored: {why}.", reason=reason, hint=hint
    )


class _Reading:
    """One pass over the log for a decision."""

    def __init__(self, log: PartitionLog, tp: TopicPartition, decision: Decision, bytes_max: int) -> None:
        self._log = log
        self._tp = tp
        self._decision = decision
        topic_id = decision.batches[0].topic_id
        self._topic_id = None if topic_id is None else UUID(bytes=topic_id)
        self._bytes_max = bytes_max
        self._bytes = 0
        self._records: dict[UnknownBatch, dict[int, tuple[int, int, int]]] = {}

    async def run(self) -> None:
        """Read, and write down what was found out; raises StillUnknownError and what `PartitionLog.batches` raises."""
        try:
            search = await self._searched()
        except (BrokerError, UnknownTopicError) as error:
            if isinstance(error, BrokerError) and error.code != ErrorCode.INCONSISTENT_TOPIC_ID:
                raise
            for unknown in self._decision.batches:
                unknown.hopeless = RECREATED
            return
        if search.conclude(self._records):
            raise _stopped(self._tp, "not ended", "it is stored, and its transaction has not ended")

    async def _searched(self) -> Search:
        decision = self._decision
        await self._wait_for_high_watermark()
        earliest = await self._log.offset(self._tp, EARLIEST)
        if decision.before is not None:
            search = Search(decision, decision.before.offset, is_certain=True)
            if earliest > search.position:
                search.skip_to(earliest)
            await self._read(search, decision.by.offset + 1)
        else:
            start = max(earliest, await self._start_by_time())
            search = Search(decision, start, is_certain=earliest == 0)
            await self._read(search, decision.by.offset + 1)
            if search.has_broker_time and start > earliest:
                # The time at which the broker appended it is not known.
                search = Search(decision, earliest, is_certain=earliest == 0)
                await self._read(search, decision.by.offset + 1)
        if not search.is_done() and search.is_decided:
            await self._read(search, await self._log.offset(self._tp, LATEST))
        return search

    async def _wait_for_high_watermark(self) -> None:
        """Wait until consumers see the deciding batch: a leader that was just elected may not know how far it is."""
        attempts = 0
        while (end := await self._log.offset(self._tp, LATEST)) <= self._decision.by.offset:
            if attempts == 25:
                why = f"offset {self._decision.by.offset} was acknowledged, and the partition ends at {end}"
                raise _stopped(self._tp, "unclean election", why)
            attempts += 1
            await asyncio.sleep(_PAUSE_S)

    async def _start_by_time(self) -> int:
        """An offset that none of the batches is before, if their timestamps are those of the producer."""
        oldest = min(unknown.max_timestamp for unknown in self._decision.batches)
        if oldest < 0:
            return 0
        at = await self._log.offset(self._tp, oldest)
        return self._decision.by.offset if at < 0 else min(at, self._decision.by.offset)

    async def _read(self, search: Search, end: int) -> None:
        if search.position >= end or search.is_done():
            return
        async with aclosing(self._log.batches(self._tp, search.position, end, self._topic_id)) as responses:
            async for response in responses:
                for fetched in response:
                    self._bytes += fetched.batch.size
                    unknown = search.take(fetched.batch)
                    if unknown is not None:
                        self._records[unknown] = await _records(fetched)
                if search.is_done():
                    return
                if self._bytes >= self._bytes_max and search.position < end:
                    left = end - search.position
                    raise _stopped(
                        self._tp,
                        "too many bytes",
                        f"after resolve.max.bytes={self._bytes_max} bytes {left} offsets are left to be read",
                        hint="Raise resolve.max.bytes.",
                    )


async def _records(fetched: FetchedBatch) -> dict[int, tuple[int, int, int]]:
    """Timestamp and sizes of each record of a batch by its place there; -1 for null."""
    batch = (await decompressed(fetched)).batch
    return {
        record.offset - batch.base_offset: (
            record.timestamp,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
        )
        for record in batch.records()
    }
