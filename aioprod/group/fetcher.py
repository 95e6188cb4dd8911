"""Fetches the records of the partitions that are assigned to a member.

A partition whose start is not an offset has a `Lookup` (ListOffsets) first, and then a `Position` (Fetch). Each
round sends a Fetch request to every leader without one in flight, and the first response fills the buffer. `next`
returns the records of the buffer one by one, and the position that a user sees follows the record that was returned
last. Dropping a partition marks its position as done, so that a response in flight is ignored for it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from aioprod.calls.leaders import LeaderRequests, PendingPartition
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, ProtocolError
from aioprod.group.arrow_gathering import ArrowGathering
from aioprod.group.available_records import AvailableRecords
from aioprod.group.config import MemberConfig
from aioprod.group.errors import no_such_offset
from aioprod.group.fetch_buffer import FetchBuffer
from aioprod.group.fetch_counts import FetchCounts
from aioprod.group.fetch_positions import FetchPositions
from aioprod.group.list_timer import ListTimer
from aioprod.group.log_ends import LogEnds
from aioprod.group.offset_reset import OffsetReset
from aioprod.group.open_batch import OpenBatch
from aioprod.group.unfinished import Unfinished
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.reader.deserializing import Deserializers
from aioprod.reader.fetching import Fetching
from aioprod.reader.position import Position
from aioprod.reader.read_replicas import ReadReplicas
from aioprod.reader.reader import SLICE_S
from aioprod.types import ConsumedRecord, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Fetcher"]

ReadT = TypeVar("ReadT")

_RUN: Final = 32
"""Records that are gathered for a list between two looks at the clock."""


class Fetcher:
    """Returns the records of partitions that are added and dropped; for one task at a time, which waits in `next`.

    It sends each leader, or the follower that it has named, one long poll for all its partitions. It holds up to one
    response of each broker, the one whose records are being returned, and the records of paused partitions. It retries
    partitions that have no leader, and topics that do not exist, until they do. When a log does not have an offset,
    because retention has removed it or the topic was created again, `auto_offset_reset` says where to continue:
    at another one, or nowhere ("none"), which raises an error. Raises ConfigError.
    """

    def __init__(self, session: Session, config: MemberConfig) -> None:
        self.available = AvailableRecords()
        self.unfinished = Unfinished(self.available)
        self._returned = 0
        self._session = session
        self.counts = FetchCounts(config.client_rack, session.cluster)
        self._replicas = replicas = ReadReplicas(session.cluster, config.metadata_max_age_ms / 1000)
        self._fetching = Fetching(config, replicas, sessions=True)
        self._offset_reset = OffsetReset(config.auto_offset_reset)
        self._deserializers = Deserializers(config)
        self.log_ends = LogEnds(session, config.fetch_max_wait_ms / 1000)
        self._buffer = FetchBuffer()
        self._positions = FetchPositions(session, self._buffer.paused, config.isolation_level, self._offset_reset)
        self._arrow: ArrowGathering | None = None
        self._leaders: LeaderRequests[Position, FetchResponse] = LeaderRequests(
            session,
            self._positions,
            self._request,
            purpose="read",
            operation="READ",
            version=lambda: (self._positions.version, replicas.version),
            lost=self._fetching.lost,
            target=replicas.node,
            patient=True,
        )
        self._is_interrupted = False
        self._gathers_as_stored = False
        self._are_stored = self.is_plain
        """Whether records are returned as they are stored: by the call, or for lack of deserializers."""
        self._list_timer = ListTimer(session)
        self._slice_end = -math.inf

    async def close(self) -> None:
        """Drop all partitions, and cancel the requests in flight."""
        self.drop(self._positions.partitions)
        await self._positions.close()
        await self._leaders.close()
        self._deserializers.close()

    # --- partitions

    def add(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Read these partitions from their offset on; EARLIEST, LATEST and None (`auto_offset_reset`) are looked up.

        Paused partitions stay paused.
        """
        self.available.withdraw()
        for tp, offset in positions.items():
            if tp in self._positions:
                self._buffer.drop(tp)
            self._positions.add(tp, offset)
        self._session.notify()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of these partitions."""
        self.available.withdraw()
        dropped = tuple(partitions)
        for tp in dropped:
            self._positions.remove(tp)
            self._buffer.drop(tp)
            self._replicas.clear(tp)
        self.log_ends.forget(dropped)
        self._buffer.resume(dropped)
        self._session.notify()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Neither fetch these partitions nor return their records; records that were fetched are kept."""
        self.available.withdraw()
        self._buffer.pause(partitions)
        self._positions.changed()
        self._session.notify()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these partitions and return their records again."""
        self._buffer.resume(partitions)
        self._positions.changed()
        self._session.notify()

    def observe_resets(self, observer: Callable[[TopicPartition], object]) -> None:
        """Call this with each partition to which `auto_offset_reset` is applied."""
        self._positions.observe_resets(observer)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(self._buffer.paused)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, after the last record that was returned; missing while it is looked up."""
        return self._positions.offsets | self._buffer.offsets

    @property
    def topic_ids(self) -> dict[TopicPartition, UUID]:
        """The id of the topic whose partition is read; missing before it is fetched, and where brokers have no ids."""
        return self._positions.topic_ids

    @property
    def lag(self) -> dict[TopicPartition, int | None]:
        """The offsets between each position and its log end; None while one of them is unknown, or is old."""
        return self.log_ends.lag(self._positions.partitions, self.positions)

    @property
    def starts(self) -> dict[TopicPartition, int]:
        """The offset at which each partition was started; missing while it is looked up."""
        return dict(self._positions.starts)

    @property
    def pending(self) -> tuple[PendingPartition, ...]:
        """The partitions that requests are sent for: Fetch, or first ListOffsets; without those that are paused."""
        return self._positions.pending

    @property
    def sent_at(self) -> dict[int, float]:
        """When the Fetch request was sent that a broker has not answered yet, by node id."""
        return self._leaders.sent_at

    # --- records

    @property
    def records_returned(self) -> int:
        """How many records were returned, those of `available` included."""
        return self._returned + self.available.returned

    def interrupt(self) -> None:
        """Have the waiting call of `next` return None; without one, the next call does."""
        self.available.withdraw()
        self._is_interrupted = True
        self._session.notify()

    def offer(self, until: float) -> None:
        """Have `available` give the next records until the slice ends, at the latest until `until`.

        Records that need a deserializer are not given that way.
        """
        batch = self._buffer.current
        if batch is not None and self.is_plain and not (self._buffer.ready or self._is_interrupted):
            self.available.offer(batch, self._session.clock, min(until, self._slice_end))

    async def next(self) -> ConsumedRecord | None:
        """The next record of any partition, None after `interrupt`; a call that is cancelled loses nothing.

        Raises AuthorizationError, CorruptRecordError, SerializationError, BrokerError (OFFSET_OUT_OF_RANGE if
        `auto_offset_reset` is "none"), and UsageError when the session is closed. The next call retries what failed.
        """
        buffer = self._buffer
        self._gather_as(as_stored=False)
        if buffer.ready and not self._is_interrupted:
            record: ConsumedRecord | None = buffer.take(1)[0]
        else:
            record = await self._record()
        if record is None:
            self._is_interrupted = False
        else:
            self._returned += 1
            self.available.last = record
        return record

    async def next_list(
        self, max_records: int, max_wait_s: float, *, as_stored: bool = False
    ) -> list[ConsumedRecord] | None:
        """Records of any partitions, in order within each, None after `interrupt`; `as_stored`: not deserialized.

        Returns as soon as there are `max_records`, or `max_wait_s` after the first one. Cancellation and errors are as
        for `next`; records before an error are returned, and the next call raises it. Positions move when the list is
        returned.
        """
        buffer = self._buffer
        self._gather_as(as_stored=as_stored)
        timer, is_timed = self._list_timer, False
        try:
            while buffer.ready < max_records:
                if not buffer.ready:
                    timer.reset()
                elif not is_timed:
                    is_timed = True
                    timer.start(max_wait_s)
                try:
                    record = await self._record(for_list=True)
                    if record is not None:
                        buffer.gather(record)
                        self._gather_more(max_records - buffer.ready)
                        continue
                except AioprodError:
                    if buffer.ready:
                        break
                    raise
                if self._is_interrupted:
                    self._is_interrupted = False
                    return None
                break
        finally:
            timer.stop()
        timer.reset()
        records = buffer.take(max_records)
        self.unfinished.returned(buffer.taken)
        self._returned += len(records)
        return records

    @property
    def is_plain(self) -> bool:
        """Whether there are no deserializers."""
        return self._deserializers.is_plain

    async def next_arrow(self, max_records: int, max_wait_s: float) -> pa.RecordBatch | None:
        """As `next_list`, but rows of Arrow: these are also returned when they have 4 MiB."""
        arrow = self._arrow
        if arrow is None or arrow.rows_max != max_records:
            arrow = self._arrow = ArrowGathering(self._buffer, max_records)
        self._read_gathered_again()
        timer = self._list_timer
        try:
            while not arrow.is_full:
                if arrow.count:
                    timer.start(max_wait_s)
                try:
                    is_over = await self._gather(arrow)
                except AioprodError:
                    if not arrow.count:
                        raise
                    break
                if is_over:
                    break
                if self._is_interrupted:
                    self._is_interrupted = False
                    return None
            arrow.complete()
        finally:
            timer.stop()
            self._buffer.put_back()
        timer.reset()
        found = arrow.take()
        self.unfinished.returned(self._buffer.taken)
        self._returned += found.num_rows
        return found

    async def _gather(self, arrow: ArrowGathering) -> bool:
        """Gather some rows, or wait for records; True when the rows are due."""
        await self._end_slice()
        if self._is_interrupted:
            return False
        batch = self._buffer.current or self._buffer.open_next()
        if batch is None:
            if arrow.count and self._list_timer.is_due:
                return True
            await self._next_response()
        elif batch.fetched.is_large and (batch.decompressing is None or not batch.decompressing.done()):
            await self._decompressed(batch)
        else:
            try:
                arrow.read(batch)
            except ProtocolError as error:
                has_rows = arrow.count > 0
                arrow.complete()
                self._fetch_again(batch, error)
                if has_rows:
                    return True
                raise
        return False

    def _gather_as(self, *, as_stored: bool) -> None:
        """Gather records as they are stored from now on, or deserialized."""
        if as_stored is not self._gathers_as_stored:
            self._gathers_as_stored = as_stored
            self._are_stored = as_stored or self.is_plain
            self._read_gathered_again()

    def _read_gathered_again(self) -> None:
        """Fetch again the records that were gathered for a list whose call was cancelled."""
        for tp in self._buffer.gathered:
            offset = self._buffer.offsets[tp]
            self._buffer.drop(tp)
            self._positions.read_again(tp, offset)

    def _gather_more(self, room: int) -> None:
        """Gather some more records of the current batch, which need no coroutine; raises CorruptRecordError."""
        batch = self._buffer.current
        if batch is None or batch.records is None or not self._are_stored:
            return
        if records := self._read(batch, partial(batch.records.some, min(room, _RUN))):
            self._buffer.gather_from(batch, records)

    async def deserialized(self, record: ConsumedRecord) -> ConsumedRecord:
        """A record that was returned as it is stored; raises SerializationError."""
        return record if self.is_plain else await self._deserializers.applied(record)

    async def _record(self, *, for_list: bool = False) -> ConsumedRecord | None:
        """The next record that is not gathered; None when interrupted, and with `for_list` when the list is due."""
        buffer = self._buffer
        while True:
            await self._end_slice()
            if self._is_interrupted:
                return None
            batch = buffer.current or buffer.open_next()
            if batch is None:
                if for_list and self._list_timer.is_due and buffer.ready:
                    return None
                await self._next_response()
                continue
            if batch.records is None:
                await self._open_records(batch)
                continue
            record = batch.record or self._read(batch, batch.records.next)
            if record is None:
                buffer.close_current()
                continue
            if not self._are_stored:
                batch.record = record
                record = await self._deserializers.applied(record)
                if buffer.current is not batch or self._is_interrupted:
                    continue
            batch.record = None
            batch.offset = record.offset + 1
            return record

    async def _end_slice(self) -> None:
        """Let others run once in `SLICE_S`."""
        if self._session.clock() >= self._slice_end:
            # Set first, so that a caller with a shorter time-out than one loop iteration makes progress, too.
            self._slice_end = self._session.clock() + SLICE_S
            await asyncio.sleep(0)

    def _read(self, batch: OpenBatch, read: Callable[[], ReadT]) -> ReadT:
        """What `read` reads out of the batch; where it is corrupt the rest is fetched again, and the error raised."""
        try:
            return read()
        except ProtocolError as error:
            self._fetch_again(batch, error)
            raise

    async def _open_records(self, batch: OpenBatch) -> None:
        """Set the records of a batch, after it is decompressed."""
        batch.reader = None
        if batch.fetched.is_large:
            await self._decompressed(batch)
            if self._buffer.current is not batch or batch.decompressing is None or not batch.decompressing.done():
                return
        batch.records = self._read(batch, lambda: batch.to_read.consumed())

    async def _decompressed(self, batch: OpenBatch) -> None:
        """Wait until a large batch is decompressed, or something else has happened."""
        await self._session.change(math.inf, [batch.decompress()])

    async def _next_response(self) -> None:
        self._positions.start_lookups()
        self._positions.raise_lookup_error()
        self._reset_recreated_topics()
        if (answered := await self._leaders.round()) is None:
            return
        positions, response = self._fetching.accept(self._leaders, answered), answered.response
        self.counts.note(answered.node_id, response)
        ends = self._fetching.log_ends(positions, response)
        noted = {one.tp: ends[one.tp] for one in positions if one.tp in ends and not one.is_done}
        self.log_ends.note(answered.node_id, noted)
        invalid = self._fetching.out_of_range(answered, positions)
        valid = [one for one in positions if one not in invalid]
        self._buffer.fill(self._fetching.batches_of(self._leaders, answered, valid))
        for one in invalid:
            self._reset(one, "its log does not have it (OFFSET_OUT_OF_RANGE)")

    def _request(self, node_id: int, positions: Sequence[Position]) -> FetchRequest:
        self._positions.learn_topic_ids(positions)
        return self._fetching.request(positions, self._session.cluster(), node_id)

    # --- positions

    def _fetch_again(self, batch: OpenBatch, error: AioprodError) -> None:
        """Fetch the rest of a corrupt batch again; it may have been damaged on the way."""
        self._buffer.drop_batches(batch.tp)
        self._leaders.retry_later(self._positions.move(batch.tp, batch.offset), error)

    def _reset_recreated_topics(self) -> None:
        """Reset the positions of topics that were deleted and created again."""
        for one in self._positions.replaced():
            self._buffer.drop(one.tp)
            self._reset(one, "its topic was deleted and created again")

    def _reset(self, one: Position, why: str) -> None:
        """Apply `auto_offset_reset` to a position whose offset does not exist."""
        if one.is_done:
            return
        error = no_such_offset(one.tp, one.offset, why)
        self._leaders.retry_later(one, error)
        if self._offset_reset.is_error:
            raise error
        # What was fetched before has been returned, but for records that were gathered for a list: they follow.
        self._positions.reset(one)
        self._session.notify()
