"""Reading what a member was assigned: record by record, from partitions that come and go."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError
from aioprod.group.offsets import reset_time
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.reader.deserializing import Deserializers
from aioprod.reader.fetching import ENDLESS, FetchedBatch, Fetching, Position, out_of_range, unpacked
from aioprod.reader.leaders import LeaderRequests, Wanted
from aioprod.reader.offsets import Lookup, Lookups
from aioprod.reader.reader import SLICE_S
from aioprod.reader.session import Session
from aioprod.reader.settings import ReaderConfig, isolation_level
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["Fetcher"]


@dataclass(slots=True, eq=False)
class _Open:
    """The batch that is given out: `offset` is where it goes on. A large one has no `records` until it is `unpacking`;
    `record` has been taken from them and can't be given yet."""

    position: Position
    offset: int
    unpacking: asyncio.Task[FetchedBatch] | None = None
    records: Iterator[ConsumedRecord] | None = None
    record: ConsumedRecord | None = None


class Fetcher:
    """Gives the records of partitions that are added and dropped; for one task at a time, which waits in `next`.

    It asks each leader with one long poll for all its partitions, and holds one answer of each at most, and the one
    that it gives out just now. Partitions that have no leader, or whose topic does not exist, are asked for until they
    do. Where a log does not have an offset, since retention has removed it or the topic was created again,
    `auto_offset_reset` says where to go on: "earliest", "latest", or "none", which is an error. Raises ConfigError.
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
        self._session = session
        self._isolation = isolation
        self._fetching = Fetching(isolation_level(isolation), config)
        self._reset_time = reset_time(auto_offset_reset)
        self._deserializers = Deserializers(config, key_deserializer, value_deserializer)
        self._positions: dict[TopicPartition, Position] = {}
        self._lookups: dict[TopicPartition, Lookup] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._leaders: LeaderRequests[Position, FetchResponse] = LeaderRequests(
            session, self._positions.values(), self._request, purpose="read", operation="READ", patient=True
        )
        self._is_interrupted = False
        self._looking: asyncio.Task[None] | None = None
        self._trouble: AioprodError | None = None
        self._batches: Iterator[FetchedBatch] = iter(())
        self._open: _Open | None = None
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
        """Read these partitions from their offset on: one that is negative is EARLIEST or LATEST, to be looked up."""
        self.drop(positions)
        for tp, offset in positions.items():
            if offset < 0:
                self._lookups[tp] = Lookup(tp, timestamp=offset)
            else:
                self._starts[tp] = offset
                self._positions[tp] = Position(tp=tp, offset=offset, end=ENDLESS)
        self._keep_looking()
        self._session.notify()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing of these comes out any more."""
        for tp in partitions:
            self._lookups.pop(tp, None)
            self._starts.pop(tp, None)
            position = self._positions.pop(tp, None)
            if position is not None:
                self._forget(position)
        self._session.notify()

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, after the last record that was given out; none while it is looked up."""
        offsets = {tp: position.offset for tp, position in self._positions.items()}
        if self._open is not None:
            offsets[self._open.position.tp] = self._open.offset
        return offsets

    @property
    def starts(self) -> dict[TopicPartition, int]:
        """Where it began to read each partition; none while that is looked up."""
        return dict(self._starts)

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """What its leaders are asked for: records, or first where to begin."""
        return (*self._positions.values(), *self._lookups.values())

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
        while True:
            if self._session.clock() >= self._slice_end:
                # Noted first: who never waits for longer than a turn gets on, too.
                self._slice_end = self._session.clock() + SLICE_S
                await asyncio.sleep(0)
            if self._is_interrupted:
                self._is_interrupted = False
                return None
            opened = self._open
            if opened is None or opened.records is None:
                await self._unpack(opened)
                continue
            record = opened.record or self._taken(opened, opened.records)
            if record is None:
                self._open = None
                continue
            if not self._deserializers.is_plain:
                opened.record = record
                record = await self._deserializers.applied(record)
                if self._open is not opened or self._is_interrupted:
                    continue
                opened.record = None
            opened.offset = record.offset + 1
            return record

    def _taken(self, opened: _Open, records: Iterator[ConsumedRecord]) -> ConsumedRecord | None:
        """The next record of the batch, None at its end."""
        try:
            return next(records, None)
        except ProtocolError as error:
            self._rewind(opened, error)
            raise

    async def _unpack(self, opened: _Open | None) -> None:
        """Go on to the next batch, and until it has records."""
        if opened is None:
            fetched = next(self._batches, None)
            if fetched is None:
                await self._next_answer()
                return
            self._open = opened = _Open(self._positions[fetched.tp], fetched.start)
            if not fetched.is_large:
                opened.records = fetched.consumed()
                return
            opened.unpacking = asyncio.get_running_loop().create_task(unpacked(fetched))
            opened.unpacking.add_done_callback(_looked_at)
        assert opened.unpacking is not None
        await self._session.change(math.inf, [opened.unpacking])
        if self._open is not opened or not opened.unpacking.done():
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
        lost = out_of_range(asked, answer)
        self._batches = self._fetching.take(self._leaders, [one for one in asked if one not in lost], answer)
        for one in lost:
            self._reset(one, "its log does not have it (OFFSET_OUT_OF_RANGE)")

    def _request(self, asked: Sequence[Position]) -> FetchRequest:
        cluster = self._session.client.metadata.cluster
        for one in asked:
            if one.topic_id is None:
                one.topic_id = cluster.topic_id(one.tp.topic)
        return self._fetching.request(asked, cluster)

    # --- where it can't go on

    def _forget(self, position: Position) -> None:
        """Whatever is on its way for it, and is given out of it."""
        position.end = position.offset
        if self._open is not None and self._open.position is position:
            if self._open.unpacking is not None:
                self._open.unpacking.cancel()
            self._open = None

    def _rewind(self, opened: _Open, error: AioprodError) -> None:
        """A batch can't be given to its end: fetch it again from there, which may help."""
        old = opened.position
        self._forget(old)
        again = Position(tp=old.tp, offset=opened.offset, end=ENDLESS, topic_id=old.topic_id)
        self._positions[old.tp] = again
        self._leaders.again(again, error)

    def _follow_topics(self) -> None:
        """Begin anew with topics that were deleted and created again."""
        metadata = self._session.client.metadata
        if metadata.version != self._known_version:
            cluster = metadata.cluster
            for one in [one for one in self._positions.values() if one.is_replaced(cluster)]:
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
        self.add({one.tp: self._reset_time})

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
