"""Where a member reads each of its partitions: its position, or first the lookup of an offset."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from uuid import UUID

from aioprod.calls.leaders import PendingPartition
from aioprod.calls.session import Session
from aioprod.errors import AioprodError
from aioprod.group.offset_reset import OffsetReset
from aioprod.reader.offsets import Lookup, Lookups
from aioprod.reader.position import ENDLESS, Position
from aioprod.types import TopicPartition

__all__ = ["FetchPositions"]


class FetchPositions:
    """The positions of the partitions. Iterating gives those of partitions that are not in `paused`."""

    def __init__(
        self, session: Session, paused: Collection[TopicPartition], isolation: str, offset_reset: OffsetReset
    ) -> None:
        self.version = 0
        """Grows with each change of what iterating gives; the owner of `paused` calls `changed`."""
        self.starts: dict[TopicPartition, int] = {}
        """The offset at which each partition was started; missing while it is looked up."""
        self._session = session
        self._paused = paused
        self._isolation = isolation
        self._offset_reset = offset_reset
        self._positions: dict[TopicPartition, Position] = {}
        self._lookups: dict[TopicPartition, Lookup] = {}
        self._lookup_task: asyncio.Task[None] | None = None
        self._lookup_error: AioprodError | None = None
        self._observers: list[Callable[[TopicPartition], object]] = []
        self._metadata_version = -1
        """The version of the last metadata in which no topic was created again."""

    def __iter__(self) -> Iterator[Position]:
        return iter([one for tp, one in self._positions.items() if tp not in self._paused])

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._positions or tp in self._lookups

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions, also those that are paused or looked up."""
        return [*self._positions, *self._lookups]

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The next offset of each partition to fetch; missing while it is looked up."""
        return {tp: position.offset for tp, position in self._positions.items()}

    @property
    def pending(self) -> tuple[PendingPartition, ...]:
        """The partitions that requests are sent for: Fetch, or first ListOffsets; without those that are paused."""
        pending = (*self._positions.values(), *self._lookups.values())
        return tuple(one for one in pending if one.tp not in self._paused)

    @property
    def topic_ids(self) -> dict[TopicPartition, UUID]:
        """The id of the topic whose partition is read, where it is known."""
        return {tp: one.topic_id for tp, one in self._positions.items() if one.topic_id is not None}

    def learn_topic_ids(self, positions: Iterable[Position]) -> None:
        """Note which topic is read from now on."""
        cluster = self._session.cluster()
        for one in positions:
            if one.topic_id is None:
                one.topic_id = cluster.topic_id(one.tp.topic)

    def replaced(self) -> list[Position]:
        """The positions of topics that were deleted and created again."""
        metadata = self._session.client.metadata
        if metadata.version == self._metadata_version:
            return []
        replaced = [one for one in self._positions.values() if one.is_replaced(metadata.cluster)]
        if not replaced:
            self._metadata_version = metadata.version
        return replaced

    # --- changes

    def changed(self) -> None:
        """Partitions were paused or resumed."""
        self.version += 1

    def add(self, tp: TopicPartition, offset: int | None) -> None:
        """Read a partition from this offset on; EARLIEST, LATEST and None (`auto_offset_reset`) are looked up first.

        An offset of a partition that is read already is one of the same topic: of another one it is not read.
        """
        old = self._positions.get(tp)
        self.remove(tp)
        if offset is None:
            self._look_up(self._offset_reset.lookup(tp, time.time()))
        elif offset < 0:
            self._look_up(Lookup(tp, timestamp=offset))
        else:
            topic_id = None if old is None else old.topic_id
            self._start(Position(tp=tp, offset=offset, end=ENDLESS, topic_id=topic_id))

    def observe_resets(self, observer: Callable[[TopicPartition], object]) -> None:
        """Call this with each partition that is reset."""
        self._observers.append(observer)

    def reset(self, one: Position) -> None:
        """Look up where to read the partition from on, in place of this position; not before its next try is due."""
        self.remove(one.tp)
        for observer in self._observers:
            observer(one.tp)
        lookup = self._offset_reset.lookup(one.tp, time.time())
        lookup.resets = lookup.failures = one.failures
        lookup.retry_at, lookup.last_error = one.retry_at, one.last_error
        self._look_up(lookup)

    def _start(self, position: Position) -> None:
        self.starts[position.tp] = position.offset
        self._add(position)

    def _add(self, position: Position) -> None:
        self._positions[position.tp] = position
        self.version += 1

    def remove(self, tp: TopicPartition) -> None:
        """Forget a partition: records in flight are ignored, as its position is done."""
        self._lookups.pop(tp, None)
        self.starts.pop(tp, None)
        position = self._positions.pop(tp, None)
        if position is not None:
            position.end = position.offset
            self.version += 1

    def move(self, tp: TopicPartition, offset: int) -> Position:
        """Read a partition from another offset on; records in flight are ignored."""
        old = self._positions[tp]
        old.end = old.offset
        position = Position(tp=tp, offset=offset, end=ENDLESS, topic_id=old.topic_id)
        self._add(position)
        return position

    def read_again(self, tp: TopicPartition, offset: int) -> None:
        """As `move`, unless the position is being looked up: then the log does not have this offset."""
        if tp in self._positions:
            self.move(tp, offset)

    # --- lookups

    def _look_up(self, one: Lookup) -> None:
        self._lookups[one.tp] = one
        self.start_lookups()

    def start_lookups(self) -> None:
        """Look offsets up in a task, if there are any to look up."""
        if self._lookups and (self._lookup_task is None or self._lookup_task.done()):
            self._lookup_task = asyncio.get_running_loop().create_task(self._look_up_all())

    def raise_lookup_error(self) -> None:
        """Raise the error that ended the lookups, if any, once."""
        if self._lookup_error is not None:
            error, self._lookup_error = self._lookup_error, None
            raise error

    async def _look_up_all(self) -> None:
        """Look offsets up until cancelled, also those that are added meanwhile."""
        try:
            async with Lookups(self._session, self._lookups.values(), self._isolation, patient=True) as lookups:
                while True:
                    found = await lookups.found()
                    if found is None:
                        await self._session.change(math.inf)
                    for one in found or ():
                        self._found(one)
        except AioprodError as error:
            self._lookup_error = error
            self._session.notify()

    def _found(self, one: Lookup) -> None:
        if self._lookups.get(one.tp) is not one or one.offset is None:
            return
        if one.since is not None:
            self._look_up(Lookup(one.tp, timestamp=one.since, end=one.offset, resets=one.resets))
            return
        del self._lookups[one.tp]
        offset = one.end if one.end is not None and one.offset < 0 else one.offset
        self._start(Position(tp=one.tp, offset=offset, end=ENDLESS, failures=one.resets))
        self._session.notify()

    async def close(self) -> None:
        """Stop the lookups."""
        if self._lookup_task is not None:
            self._lookup_task.cancel()
            await asyncio.wait([self._lookup_task])
