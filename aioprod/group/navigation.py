"""What the user of a member asks about its partitions, and where it has them read: all but the reading itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from aioprod.errors import UsageError
from aioprod.group.validation import checked_offsets, checked_partitions
from aioprod.net.session import Session, Started
from aioprod.reader.offsets import EARLIEST, LATEST, look_up, timestamp_of
from aioprod.types import OffsetAndMetadata, Timestamp, TopicPartition

if TYPE_CHECKING:
    from aioprod.group.assignment import Holding
    from aioprod.group.fetcher import Fetcher
    from aioprod.group.membership import Membership
    from aioprod.group.meters import MemberMetrics
    from aioprod.group.runner import Runner

__all__ = ["Navigation"]

Partitions = TopicPartition | Iterable[TopicPartition]


class Navigation(Started):
    """The calls of a member that move or hold what it reads, and those that ask how far it is.

    Those that change something are for partitions that it owns and does not give up just now, and raise UsageError for
    others; those that ask take any partition. `partitions` is one or several, by default all that it owns. What a
    partition was told here is forgotten when it goes to another member.
    """

    _fetcher: Fetcher
    _holding: Holding | None
    _isolation: str
    _metrics: MemberMetrics
    _reading: Session

    def _running(self) -> tuple[Holding, Membership, Runner]:
        """Raises UsageError before `start()` and after `close()`."""
        raise NotImplementedError

    # --- what it has

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that it owns now."""
        return frozenset() if self._holding is None else self._holding.assignment

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition that it owns, after the last record that it gave; only what is known."""
        return {} if self._holding is None else self._holding.positions

    def lag(self) -> dict[TopicPartition, int | None]:
        """How far each partition that it owns is behind its end, in offsets, without asking a broker.

        The end is the one that came with what was fetched last: the high watermark, and under read_committed the last
        stable offset. None for a partition that was not fetched yet, or whose position is looked up.
        """
        lag = self._fetcher.lag
        return {tp: lag.get(tp) for tp in self.assignment}

    def metrics(self) -> dict[str, float]:
        """Counters since the member was made and how it is now, by name; docs/groups.md has the table."""
        return self._metrics.snapshot()

    async def committed(self, partitions: Partitions | None = None) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each partition, None for nothing.

        Raises BrokerError, AuthorizationError, RequestTimedOutError after `default.api.timeout.ms`.
        """
        holding, _, _ = self._running()
        return await holding.committed(self._asked_for(partitions))

    async def beginning_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        """The first offset of each partition's log; raises what `end_offsets` raises."""
        return await self._look_up(partitions, EARLIEST)

    async def end_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition: under read_committed the last stable offset.

        Raises UnknownTopicError, AuthorizationError, and RequestTimedOutError when no leader answers for
        `default.api.timeout.ms`, as for a partition that does not exist.
        """
        return await self._look_up(partitions, LATEST)

    async def offsets_for_times(self, times: Mapping[TopicPartition, Timestamp]) -> dict[TopicPartition, int | None]:
        """The offset of each partition's first record that is not older than its time, None where all are older.

        Times are milliseconds since the epoch, or aware datetimes. Raises ConfigError, and what `end_offsets` raises.
        """
        self._running()
        wanted = {tp: timestamp_of("times", at) for tp, at in times.items()}
        checked_partitions(wanted)
        found = await look_up(self._reading, wanted, self._isolation)
        return {tp: None if offset < 0 else offset for tp, offset in found.items()}

    async def _look_up(self, partitions: Partitions | None, time: int) -> dict[TopicPartition, int]:
        self._running()
        return await look_up(self._reading, dict.fromkeys(self._asked_for(partitions), time), self._isolation)

    def _asked_for(self, partitions: Partitions | None) -> tuple[TopicPartition, ...]:
        return tuple(sorted(self.assignment)) if partitions is None else checked_partitions(partitions)

    # --- where it reads

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on reading a partition at an offset; raises UsageError for one that the member does not own."""
        holding, _, _ = self._running()
        ((place, wanted),) = checked_offsets({tp: offset}).items()
        self._owned([place])
        holding.seek({place: wanted.offset})

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Go on reading at the first record that the log has; it is looked up after this call, as in Java."""
        holding, _, _ = self._running()
        holding.seek(dict.fromkeys(self._owned(partitions), EARLIEST))

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Go on reading after the last record that there is when the end is looked up, after this call."""
        holding, _, _ = self._running()
        holding.seek(dict.fromkeys(self._owned(partitions), LATEST))

    async def seek_to_time(self, at: Timestamp, partitions: Partitions | None = None) -> None:
        """Go on reading at the first record that is not older than a time, and at the end where all are older.

        Times and errors are those of `offsets_for_times`; whatever the member does not own any more when the offsets
        are there is left out.
        """
        holding, _, _ = self._running()
        found = await self.offsets_for_times(dict.fromkeys(self._owned(partitions), at))
        places = {tp: LATEST if offset is None else offset for tp, offset in found.items()}
        holding.seek({tp: offset for tp, offset in places.items() if tp in holding.readable})

    async def rewind(self) -> None:
        """Go back to where the group has got to: what was read since the last commit comes again, as it has to after
        an aborted transaction. Raises what can be wrong with the answer, as `__anext__` does, and RequestTimedOutError
        when there is none for `default.api.timeout.ms`: then nothing has changed."""
        holding, _, _ = self._running()
        await holding.rewind()

    # --- what it holds back

    def pause(self, partitions: Partitions | None = None) -> None:
        """Neither fetch these partitions nor give records of them, until they are resumed or go to another member.

        What was fetched of them is kept. The member stays in its group, and their positions stay where they are.
        """
        self._running()
        self._fetcher.pause(self._owned(partitions))

    def resume(self, partitions: Partitions | None = None) -> None:
        """Go on reading these partitions, with what was kept of them first; those not paused stay as they are."""
        self._running()
        self._fetcher.resume(self._owned(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._fetcher.paused

    def _owned(self, partitions: Partitions | None) -> tuple[TopicPartition, ...]:
        holding, _, _ = self._running()
        if partitions is None:
            return tuple(sorted(holding.readable))
        wanted = checked_partitions(partitions)
        for place in wanted:
            if place not in holding.readable:
                raise UsageError(f"This member does not own partition {place.partition} of topic {place.topic!r}.")
        return wanted
