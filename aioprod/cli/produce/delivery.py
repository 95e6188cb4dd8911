"""Sends records in order, and counts what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from aioprod.cli.produce.formats import Row, Rows
from aioprod.errors import AioprodError, BufferFullError
from aioprod.producer import Producer
from aioprod.producer.batching.bulk_values import BYTES_PER_TURN
from aioprod.producer.batching.lines import Lines
from aioprod.producer.bulk.send_many import RECORDS_PER_TURN
from aioprod.records.headers import encode_headers
from aioprod.types import Headers, ProducerRecord, RecordMetadata, SendResult, TopicPartition

__all__ = ["Delivery", "Failed", "Report", "Terms"]

_IN_FLIGHT_SHARE: Final = 0.5
"""The share of `buffer.memory` that calls may fill: beyond, their records would wait for room out of order."""
_KNOWN_S: Final = 60.0
"""How long a topic that is not used stays known at least: `metadata.max.idle.ms` is five minutes."""
_OVERHEAD: Final = 100
"""Bytes that a record may need beside its key, value and headers."""


class Failed(NamedTuple):
    """The first line that failed, and why."""

    source: str
    line: int
    error: AioprodError


class Terms(NamedTuple):
    """What all records have in common."""

    topic: str
    headers: Headers | None
    partition: int | None
    timestamp: int | None


class Report:
    """What became of the records: counts, bytes of keys and values, and offsets by partition."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.sent_bytes = 0
        self.first_failure: Failed | None = None
        self.is_aborted = False
        self.partitions: dict[TopicPartition, tuple[int, int, int]] = {}

    def stored(self, tp: TopicPartition, first: int, last: int, count: int) -> None:
        """Records of a partition were delivered, with these offsets, -1 where they are not known."""
        self.delivered += count
        known = self.partitions.get(tp)
        if known is not None:
            first, last, count = min(known[0], first), max(known[1], last), known[2] + count
        self.partitions[tp] = first, last, count

    def abort(self) -> None:
        """The transaction was aborted: no reader of committed records sees what was delivered."""
        self.is_aborted = True

    def fail(self, source: str, line: int, error: AioprodError, count: int = 1) -> None:
        """Records were not delivered, the first of them of this line."""
        self.failed += count
        before = self.first_failure
        if before is None or (before.source == source and line < before.line):
            self.first_failure = Failed(source, line, error)


class Delivery:
    """Sends rows of files in their order; `report` has the outcomes so far. Nothing more is sent after a failure."""

    def __init__(self, producer: Producer, terms: Terms) -> None:
        self.report = Report()
        self._producer = producer
        self._terms = terms
        self._overhead = _OVERHEAD + len(encode_headers(terms.headers or ()))
        self._limit = int(producer.config.buffer_memory * _IN_FLIGHT_SHARE)
        self._in_flight = 0
        self._known_at = -math.inf
        self._calls: deque[asyncio.Task[None]] = deque()

    @property
    def has_failed(self) -> bool:
        """Whether a record was not delivered."""
        return self.report.first_failure is not None

    async def send(self, source: str, rows: Rows) -> None:
        """Send some rows, as soon as there is room for them."""
        sent = 0
        while sent < len(rows.values):
            if self.has_failed:
                return
            sent += await self._send_some(source, rows, sent)
        for start in range(0, len(rows.single), RECORDS_PER_TURN):
            if self.has_failed:
                return
            for row in rows.single[start : start + RECORDS_PER_TURN]:
                await self._send_row(source, row)
            await self._producer.drain()
        if rows.error is not None and not self.has_failed:
            self.report.fail(source, rows.error_line, rows.error)

    async def _send_some(self, source: str, rows: Rows, start: int) -> int:
        """Send the next records by one call; returns how many.

        They are no more than a call takes in one turn of the loop. Of a call that takes several, the last records would
        be behind the first ones of the calls after it.
        """
        count = RECORDS_PER_TURN
        while True:
            values = rows.values[start : start + count]
            keys = None if rows.keys is None else rows.keys[start : start + count]
            size = _size(values) + _size(keys or ())
            needed = size + self._overhead * len(values)
            if needed <= BYTES_PER_TURN or len(values) == 1:
                break
            count = len(values) // 2
        while self._calls and self._in_flight + needed > self._limit:
            await asyncio.shield(self._calls[0])
        await self._know_topic()
        self._in_flight += needed
        task = asyncio.create_task(self._call(source, rows.line + start, values, keys, needed, size))
        self._calls.append(task)
        # The call takes its records in the first iteration, before the next call begins.
        await asyncio.sleep(0)
        return len(values)

    async def _know_topic(self) -> None:
        """Wait until the topic is known: of several calls that wait for it, a later one might be first."""
        now = asyncio.get_running_loop().time()
        if now - self._known_at > _KNOWN_S:
            await self._producer.partitions_for(self._terms.topic)
        self._known_at = now

    async def _call(
        self,
        source: str,
        line: int,
        values: Sequence[bytes | None] | Lines,
        keys: Sequence[bytes | None] | None,
        needed: int,
        size: int,
    ) -> None:
        terms = self._terms
        try:
            result = await self._producer.send_many(
                terms.topic,
                values,
                keys=keys,
                partition=terms.partition,
                headers=terms.headers,
                timestamps=terms.timestamp,
            )
        except AioprodError as error:
            self.report.fail(source, line, error, len(values))
        else:
            self._count(source, line, result)
            lost = [index for index, _ in result.failures]
            size -= sum(len(values[index] or b"") + len((keys[index] if keys else None) or b"") for index in lost)
            self.report.sent_bytes += size
        finally:
            self._in_flight -= needed
            current = asyncio.current_task()
            with contextlib.suppress(ValueError):
                self._calls.remove(current)  # type: ignore[arg-type]  # a task runs this

    def _count(self, source: str, line: int, result: SendResult) -> None:
        for tp, ranges in result.offsets.items():
            count = sum(map(len, ranges))
            self.report.stored(tp, ranges[0].start, ranges[-1].stop - 1, count)
        unknown = result.count - len(result.failures) - sum(sum(map(len, each)) for each in result.offsets.values())
        self.report.delivered += unknown
        for index, error in result.failures:
            self.report.fail(source, line + index, error)

    async def _send_row(self, source: str, row: Row) -> None:
        terms = self._terms
        headers = row.headers if terms.headers is None else [*terms.headers, *(row.headers or ())]
        record = ProducerRecord(
            terms.topic,
            row.value,
            key=row.key,
            partition=terms.partition if row.partition is None else row.partition,
            headers=headers,
            timestamp=terms.timestamp if row.timestamp is None else row.timestamp,
        )

        def done(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            if metadata is not None:
                self.report.sent_bytes += len(row.value or b"") + len(row.key or b"")
                tp = TopicPartition(metadata.topic, metadata.partition)
                self.report.stored(tp, metadata.offset, metadata.offset, 1)
            elif error is not None:
                self.report.fail(source, row.line, error)

        while not self.has_failed:
            try:
                self._producer.send_nowait(record, on_delivery=done)
            except BufferFullError:
                await self._producer.drain()
            except AioprodError as error:
                self.report.fail(source, row.line, error)
            else:
                return

    async def finish(self) -> None:
        """Wait for the outcome of all that was sent."""
        await self._producer.flush()
        while self._calls:
            await asyncio.shield(self._calls[0])


def _size(texts: Iterable[bytes | None] | Lines) -> int:
    """The bytes of keys or values; a generator would cost three times as much."""
    return texts.size if isinstance(texts, Lines) else sum(map(len, filter(None, texts)))
