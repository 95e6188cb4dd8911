"""The calls of a member about its partitions: positions, lag, offsets, seek, pause and resume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from aioprod.calls.session import Session, Started
from aioprod.errors import UsageError
from aioprod.group.validation import checked_offsets, checked_partitions
from aioprod.reader.offsets import EARLIEST, LATEST, look_up, timestamp_of
from aioprod.types import OffsetAndMetadata, Timestamp, TopicPartition

if TYPE_CHECKING:
    from aioprod.group.config import MemberConfig
    from aioprod.group.fetcher import Fetcher
    from aioprod.group.parts import Parts

__all__ = ["PartitionCalls"]


class PartitionCalls(Started):
    """The calls of a member about its partitions; `Member` derives from it.

    Those that change something take partitions that it owns and that are not being revoked, and raise UsageError for
    others; those that look something up take any partition. `partitions` is one or several, by default all that it
    owns. A partition that is assigned to another member loses its pause.
    """

    config: MemberConfig
    _parts: Parts | None
    _fetcher: Fetcher
    _reading: Session

    def _running(self) -> Parts:
        """Raises UsageError before `start()` and after `close()`."""
        raise NotImplementedError

    # --- state

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are assigned to it now."""
        return frozenset() if self._parts is None else self._parts.assignment.partitions

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each assigned partition, after the last record that was returned, where it is known."""
        return {} if self._parts is None else self._parts.assignment.positions

    def lag(self) -> dict[TopicPartition, int | None]:
        """The lag of each assigned partition in offsets, without a request.

        The end is that of the last Fetch response: the high watermark, and under read_committed the last
        stable offset. Where a follower is read from (`client.rack`) it is what that follower shows, which may be behind
        the leader. None for a partition that was not fetched yet, or whose position is being looked up.
        """
        lag = self._fetcher.lag
        return {tp: lag.get(tp) for tp in self.assignment}

    async def committed(
        self, partitions: TopicPartition | Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of each partition, None where there is none.

        Raises BrokerError, AuthorizationError, RequestTimedOutError after `default.api.timeout.ms`.
        """
        assignment = self._running().assignment
        return await assignment.committed(self._requested(partitions))

    async def beginning_offsets(
        self, partitions: TopicPartition | Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition's log; raises what `end_offsets` raises."""
        return await self._look_up(partitions, EARLIEST)

    async def end_offsets(
        self, partitions: TopicPartition | Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
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
        timestamps = {tp: timestamp_of("times", at) for tp, at in times.items()}
        checked_partitions(timestamps)
        found = await look_up(self._reading, timestamps, self.config.isolation_level)
        return {tp: None if offset < 0 else offset for tp, offset in found.items()}

    async def _look_up(
        self, partitions: TopicPartition | Iterable[TopicPartition] | None, time: int
    ) -> dict[TopicPartition, int]:
        self._running()
        return await look_up(
            self._reading, dict.fromkeys(self._requested(partitions), time), self.config.isolation_level
        )

    def _requested(self, partitions: TopicPartition | Iterable[TopicPartition] | None) -> tuple[TopicPartition, ...]:
        return tuple(sorted(self.assignment)) if partitions is None else checked_partitions(partitions)

    # --- seek

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue to read a partition at an offset; raises UsageError for one that the member does not own."""
        assignment = self._running().assignment
        ((partition, target),) = checked_offsets({tp: offset}).items()
        self._to_move([partition])
        assignment.seek({partition: target.offset})

    def seek_to_beginning(self, partitions: TopicPartition | Iterable[TopicPartition] | None = None) -> None:
        """Continue to read at the start of the log; it is looked up after this call, as in Java."""
        assignment = self._running().assignment
        assignment.seek(dict.fromkeys(self._to_move(partitions), EARLIEST))

    def seek_to_end(self, partitions: TopicPartition | Iterable[TopicPartition] | None = None) -> None:
        """Continue to read at the end of the log; it is looked up after this call."""
        assignment = self._running().assignment
        assignment.seek(dict.fromkeys(self._to_move(partitions), LATEST))

    async def seek_to_time(
        self, at: Timestamp, partitions: TopicPartition | Iterable[TopicPartition] | None = None
    ) -> None:
        """Continue to read at the first record that is not older than a time, and at the end where all are older.

        Times and errors are those of `offsets_for_times`; partitions that are revoked while the offsets are looked up
        are left out.
        """
        assignment = self._running().assignment
        found = await self.offsets_for_times(dict.fromkeys(self._to_move(partitions), at))
        offsets = {tp: LATEST if offset is None else offset for tp, offset in found.items()}
        assignment.seek({tp: offset for tp, offset in offsets.items() if tp in assignment.readable})

    async def rewind(self) -> None:
        """Seek to the committed offsets: records since the last commit come again, as they have to after an aborted
        transaction. Raises BrokerError, AuthorizationError, and RequestTimedOutError after `default.api.timeout.ms`:
        then nothing has changed."""
        self._to_move(None)
        assignment = self._running().assignment
        await assignment.rewind(assignment.readable)

    # --- pause

    def pause(self, partitions: TopicPartition | Iterable[TopicPartition] | None = None) -> None:
        """Neither fetch these partitions nor return records of them, until they are resumed or revoked.

        Records that were fetched are kept. The member stays in its group, and the positions stay where they are.
        """
        work, owned = self._running().assignment.work, self._owned(partitions)
        if work is not None:
            work.leave_paused(owned)
        self._fetcher.pause(owned)

    def resume(self, partitions: TopicPartition | Iterable[TopicPartition] | None = None) -> None:
        """Continue to read these partitions, the records that were kept first; others are not changed."""
        self._running()
        self._fetcher.resume(self._owned(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._fetcher.paused

    def _to_move(self, partitions: TopicPartition | Iterable[TopicPartition] | None) -> tuple[TopicPartition, ...]:
        """The partitions whose position is to be set."""
        if self._running().assignment.work is not None:
            raise UsageError(
                "work() runs, and has records of these partitions: end it before you move their positions."
            )
        return self._owned(partitions)

    def _owned(self, partitions: TopicPartition | Iterable[TopicPartition] | None) -> tuple[TopicPartition, ...]:
        assignment = self._running().assignment
        if partitions is None:
            return tuple(sorted(assignment.readable))
        checked = checked_partitions(partitions)
        for tp in checked:
            if tp not in assignment.readable:
                raise UsageError(f"This member does not own partition {tp.partition} of topic {tp.topic!r}.")
        return checked
