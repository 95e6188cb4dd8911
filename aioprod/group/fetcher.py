"""Reading what a member was assigned: record by record, from partitions that come and go."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError
from aioprod.group.offsets import reset_time
from aioprod.group.stock import Opened, Stock
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.net.session import Session
from aioprod.reader.deserializing import Deserializers
from aioprod.reader.fetching import ENDLESS, Fetching, Position, ends_told, out_of_range, unpacked
from aioprod.reader.leaders import LeaderRequests, Wanted
from aioprod.reader.offsets import Lookup, Lookups
from aioprod.reader.reader import SLICE_S
from aioprod.reader.settings import ReaderConfig, isolation_level
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["Fetcher"]


class _Unpaused:
    """The positions that are fetched from."""

    def __init__(self, positions: Mapping[TopicPartition, Position], paused: Collection[TopicPartition]) -> None:
        self._positions = positions
        self._paused = paused

    def __iter__(self) -> Iterator[Position]:
        return iter([one for tp, one in self._positions.items() if tp not in self._paused])


class Fetcher:
    """Gives the records of partitions that are added and dropped; for one task at a time, which waits in `next`.

    It asks each leader with one long poll for all its partitions, and holds one answer of each at most, and the one
    that it gives out just now; beside these what it has of partitions that are paused. Those that have no leader, or
    whose topic does not exist, are asked for until they do. Where a log does not have an offset, since retention has
    removed it or the topic was created again, `auto_offset_reset` says where to go on: "earliest", "latest", or
    "none", which is an error. Raises ConfigError.
    """

    def __init__(
        self,
        session: Session,
        config: ReaderConfig,
        *,
        isolation: str,
        auto_offset_reset: str,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
    ) -> None:
        self.records_given = self.bytes_fetched = self.answers = 0
        self._session = session
        self._isolation = isolation
        self._isolation_level = isolation_level(isolation)
        self._fetching = Fetching(self._isolation_level, config)
        self._reset_time = reset_time(auto_offset_reset)
        self._deserializers = Deserializers(config, key_deserializer, value_deserializer)
        self._positions: dict[TopicPartition, Position] = {}
        self._lookups: dict[TopicPartition, Lookup] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._stock = Stock()
        self._leaders: LeaderRequests[Position, FetchResponse] = LeaderRequests(
            session,
            _Unpaused(self._positions, self._stock.paused),
            self._request,
            purpose="read",
            operation="READ",
            patient=True,
        )
        self._is_interrupted = False
        self._looking: asyncio.Task[None] | None = None
        self._trouble: AioprodError | None = None
        # Since when there are records for a list, which is given once it is due, although there could be more.
        self._gathered_at: float | None = None
        self._is_due = False
        self._known_version = -1
        self._slice_end = -math.inf

    async def close(self) -> None:
        """Drop everything, and give up the requests on their way."""
        self.drop([*self._positions, *self._lookups])
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await self._leaders.close()
        self._deserializers.close()

    # --- what is read

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from their offset on: one that is negative is EARLIEST or LATEST, to be looked up.

        One that is paused stays so.
        """
        for tp, offset in positions.items():
            self._forget(tp)
            self._stock.drop(tp)
            self._begin(tp, offset)
        self._session.notify()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing of these comes out any more."""
        gone = tuple(partitions)
        for tp in gone:
            self._forget(tp)
            self._stock.drop(tp)
            self._ends.pop(tp, None)
        self._stock.resume(gone)
        self._session.notify()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Neither fetch these nor give of them what was fetched: that is kept."""
        self._stock.pause(partitions)
        self._session.notify()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""
        self._stock.resume(partitions)
        self._session.notify()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """What is neither fetched nor given."""
        return frozenset(self._stock.paused)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, after the last record that was given out; none while it is looked up."""
        offsets = {tp: position.offset for tp, position in self._positions.items()}
        return offsets | self._stock.offsets

    @property
    def lag(self) -> dict[TopicPartition, int | None]:
        """How many offsets each partition has from its position to where it ended when it was fetched last; None where
        either is not known yet."""
        positions = self.positions
        known = [*self._positions, *self._lookups]
        return {
            tp: max(0, self._ends[tp] - positions[tp]) if tp in self._ends and tp in positions else None for tp in known
        }

    @property
    def starts(self) -> dict[TopicPartition, int]:
        """Where it began to read each partition; none while that is looked up."""
        return dict(self._starts)

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """What its leaders are asked for: records, or first where to begin; nothing of partitions that are paused."""
        asked = (*self._positions.values(), *self._lookups.values())
        return tuple(one for one in asked if one.tp not in self._stock.paused)

    # --- reading it

    def interrupt(self) -> None:
        """Have the call of `next` that waits, or else the next one, give None."""
        self._is_interrupted = True
        self._session.notify()

    async def next(self) -> ConsumedRecord | None:
        """The next record of any partition; waits until there is one, or for `interrupt`: None then.

        A call that is cancelled loses nothing.

        Raises AuthorizationError, CorruptRecordError, SerializationError, BrokerError (OFFSET_OUT_OF_RANGE if
        `auto_offset_reset` is "none"), and UsageError when the session is closed. It may be called again: then it goes
        on where it was, and tries again what failed.
        """
        stock = self._stock
        if stock.ready and not self._is_interrupted:
            record: ConsumedRecord | None = stock.give(1)[0]
        else:
            record = await self._record()
        if record is None:
            self._is_interrupted = False
        else:
            self.records_given += 1
        return record

    async def next_list(self, max_records: int, max_wait_s: float) -> list[ConsumedRecord] | None:
        """Records of any partitions, in order within each: as soon as there are `max_records`, or `max_wait_s` after
        the first; waits until there is one, or for `interrupt`: None then.

        Cancellation and errors are as for `next`: where there are records before an error, these are given, and the
        next call raises it. Positions move on when the list is given.
        """
        stock = self._stock
        timer: asyncio.TimerHandle | None = None
        try:
            while stock.ready < max_records:
                if not stock.ready:
                    self._gathered_at, self._is_due = None, False
                elif timer is None:
                    timer = self._timer(max_wait_s)
                try:
                    record = await self._record(for_list=True)
                except AioprodError:
                    if stock.ready:
                        break
                    raise
                if record is not None:
                    stock.gather(record)
                elif self._is_interrupted:
                    self._is_interrupted = False
                    return None
                else:
                    break
        finally:
            if timer is not None:
                timer.cancel()
        self._gathered_at, self._is_due = None, False
        given = stock.give(max_records)
        self.records_given += len(given)
        return given

    def _timer(self, max_wait_s: float) -> asyncio.TimerHandle:
        """Have what is gathered be given at its time, which does not begin anew when a call was given up."""
        now = self._session.clock()
        if self._gathered_at is None:
            self._gathered_at = now
        left_s = self._gathered_at + max_wait_s - now
        self._is_due = left_s <= 0.0
        return asyncio.get_running_loop().call_later(max(0.0, left_s), self._due)

    def _due(self) -> None:
        self._is_due = True
        self._session.notify()

    async def _record(self, *, for_list: bool = False) -> ConsumedRecord | None:
        """The next record that is not gathered; None when interrupted, and `for_list` when the list is due."""
        stock = self._stock
        while True:
            if self._session.clock() >= self._slice_end:
                # Noted first: who never waits for longer than a turn gets on, too.
                self._slice_end = self._session.clock() + SLICE_S
                await asyncio.sleep(0)
            if self._is_interrupted:
                return None
            opened = stock.opened or stock.open_next()
            if opened is None:
                if for_list and self._is_due and stock.ready:
                    return None
                await self._next_answer()
                continue
            if opened.records is None:
                await self._unpack(opened)
                continue
            record = opened.record or self._taken(opened, opened.records)
            if record is None:
                stock.opened = None
                continue
            if not self._deserializers.is_plain:
                opened.record = record
                record = await self._deserializers.applied(record)
                if stock.opened is not opened or self._is_interrupted:
                    continue
                opened.record = None
            opened.offset = record.offset + 1
            return record

    def _taken(self, opened: Opened, records: Iterator[ConsumedRecord]) -> ConsumedRecord | None:
        """The next record of the batch, None at its end."""
        try:
            return next(records, None)
        except ProtocolError as error:
            self._rewind(opened, error)
            raise

    async def _unpack(self, opened: Opened) -> None:
        """Bring a batch to where it has records."""
        if opened.unpacking is None:
            if not opened.fetched.is_large:
                opened.records = opened.fetched.consumed()
                return
            opened.unpacking = asyncio.get_running_loop().create_task(unpacked(opened.fetched))
            opened.unpacking.add_done_callback(_looked_at)
        await self._session.change(math.inf, [opened.unpacking])
        if self._stock.opened is not opened or not opened.unpacking.done():
            return
        try:
            opened.records = opened.unpacking.result().consumed()
        except ProtocolError as error:
            self._rewind(opened, error)
            raise

    async def _next_answer(self) -> None:
        self._keep_looking()
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        self._follow_topics()
        if (answered := await self._leaders.round()) is None:
            return
        asked, answer = answered
        self._note(asked, answer)
        lost = out_of_range(asked, answer)
        self._stock.fill(self._fetching.take(self._leaders, [one for one in asked if one not in lost], answer))
        for one in lost:
            self._reset(one, "its log does not have it (OFFSET_OUT_OF_RANGE)")

    def _note(self, asked: Sequence[Position], answer: FetchResponse) -> None:
        """Where partitions end, and how much came."""
        self.answers += 1
        self.bytes_fetched += sum(len(row.records or b"") for topic in answer.responses for row in topic.partitions)
        ends = ends_told(asked, answer, self._isolation_level)
        self._ends.update({one.tp: ends[one.tp] for one in asked if one.tp in ends and not one.is_done})

    def _request(self, asked: Sequence[Position]) -> FetchRequest:
        cluster = self._session.client.metadata.cluster
        for one in asked:
            if one.topic_id is None:
                one.topic_id = cluster.topic_id(one.tp.topic)
        return self._fetching.request(asked, cluster)

    # --- where it can't go on

    def _begin(self, tp: TopicPartition, offset: int) -> None:
        """Fetch it from there on."""
        if offset < 0:
            self._lookups[tp] = Lookup(tp, timestamp=offset)
            self._keep_looking()
        else:
            self._starts[tp] = offset
            self._positions[tp] = Position(tp=tp, offset=offset, end=ENDLESS)

    def _forget(self, tp: TopicPartition) -> None:
        """Whatever is on its way for it comes to nothing."""
        self._lookups.pop(tp, None)
        self._starts.pop(tp, None)
        position = self._positions.pop(tp, None)
        if position is not None:
            position.end = position.offset

    def _rewind(self, opened: Opened, error: AioprodError) -> None:
        """A batch can't be given to its end: fetch it again from there, which may help."""
        old = self._positions[opened.tp]
        old.end = old.offset
        self._stock.drop_batches(opened.tp)
        again = Position(tp=old.tp, offset=opened.offset, end=ENDLESS, topic_id=old.topic_id)
        self._positions[old.tp] = again
        self._leaders.again(again, error)

    def _follow_topics(self) -> None:
        """Begin anew with topics that were deleted and created again."""
        metadata = self._session.client.metadata
        if metadata.version != self._known_version:
            cluster = metadata.cluster
            for one in [one for one in self._positions.values() if one.is_replaced(cluster)]:
                self._stock.drop(one.tp)
                self._reset(one, "its topic was deleted and created again")
            self._known_version = metadata.version

    def _reset(self, one: Position, why: str) -> None:
        """There is nothing at its offset."""
        if one.is_done:
            return
        trouble = BrokerError(
            f"Partition {one.tp.partition} of topic {one.tp.topic!r} can't be read from offset {one.offset} on: {why}, "
            f"and auto.offset.reset is none.",
            code=ErrorCode.OFFSET_OUT_OF_RANGE,
            hint="Commit another offset, or set auto_offset_reset to earliest or latest.",
        )
        if self._reset_time is None:
            self._leaders.again(one, trouble)
            raise trouble
        # What was fetched before is still to be given.
        self._forget(one.tp)
        self._begin(one.tp, self._reset_time)
        self._session.notify()

    # --- looking offsets up

    def _keep_looking(self) -> None:
        if self._lookups and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Find offsets for as long as there may be some to find: what is added meanwhile is noticed."""
        try:
            async with Lookups(self._session, self._lookups.values(), self._isolation, patient=True) as asking:
                while True:
                    found = await asking.found()
                    if found is None:
                        await self._session.change(math.inf)
                    for one in found or ():
                        self._place(one)
        except AioprodError as error:
            self._trouble = error
            self._session.notify()

    def _place(self, one: Lookup) -> None:
        if self._lookups.get(one.tp) is one and one.offset is not None:
            del self._lookups[one.tp]
            self._starts[one.tp] = one.offset
            self._positions[one.tp] = Position(tp=one.tp, offset=one.offset, end=ENDLESS)
            self._session.notify()


def _looked_at(task: asyncio.Task[Any]) -> None:
    """What went wrong in a task for which nobody waits any more is nobody's concern."""
    if not task.cancelled():
        task.exception()
