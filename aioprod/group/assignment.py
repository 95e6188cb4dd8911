"""The assigned partitions of a member: their start offsets, positions, commits and rebalance callbacks."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from aioprod.calls.committed_offsets import stable_offsets
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, ConfigError, RequestTimedOutError, UsageError
from aioprod.group.fetcher import Fetcher
from aioprod.group.membership import Assign, Revoke
from aioprod.group.meters import MemberMetrics
from aioprod.group.offset_reset import OffsetReset
from aioprod.group.offsets import commit_offsets, start_offsets
from aioprod.group.rebalance_log import RebalanceLog
from aioprod.types import GroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["AssignmentState", "Callback", "Callbacks", "RunningWork"]

_REGULAR_TRIES: Final = 5
"""How often a commit is tried that another one follows: for about two seconds."""

Callback: TypeAlias = Callable[[Iterable[TopicPartition]], Any] | None
"""A function or coroutine function that is called with partitions."""


class Callbacks:
    """The rebalance callbacks of the user; an exception in one goes to `on_error`, and the rebalance continues.

    Raises ConfigError for one that can't be called.
    """

    def __init__(
        self, assigned: Callback, revoked: Callback, lost: Callback, on_error: Callable[[Exception], object]
    ) -> None:
        for name, given in (("on_assigned", assigned), ("on_revoked", revoked), ("on_lost", lost)):
            if given is not None and not callable(given):
                raise ConfigError(f"{name} is {given!r:.60}: give a function or coroutine function, or leave it out.")
        self._assigned = assigned
        self._revoked = revoked
        # As in Java: without `on_lost`, lost partitions go to `on_revoked`.
        self._lost = revoked if lost is None else lost
        self._on_error = on_error

    async def assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Run `on_assigned`."""
        await self._call(self._assigned, partitions)

    async def revoked(self, partitions: tuple[TopicPartition, ...], *, is_lost: bool) -> None:
        """Run `on_revoked`, or `on_lost`."""
        await self._call(self._lost if is_lost else self._revoked, partitions)

    async def _call(self, callback: Callback, partitions: tuple[TopicPartition, ...]) -> None:
        if callback is None:
            return
        try:
            result = callback(partitions)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            self._on_error(error)


class WorkProgress(Protocol):
    """Where the work on a partition stands."""

    next: int

    @property
    def low(self) -> int:
        """The offset of the first record that is not finished."""
        ...


class RunningWork(Protocol):
    """A call of `Member.work` that runs."""

    @property
    def is_in_handler(self) -> bool:
        """Whether the current task is a handler."""
        ...

    async def revoke(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> None:
        """End the work on these partitions, and commit what is finished unless they are lost."""
        ...

    async def commit(self) -> None:
        """Commit what is finished."""
        ...

    def begin_again(self, tp: TopicPartition) -> None:
        """The partition has another log now: commit nothing of what was handled before."""
        ...

    def limit_drain(self, timeout_s: float) -> None:
        """The member is closed within this time."""
        ...

    def check_topics(self, topics: frozenset[str], pattern: re.Pattern[str] | None) -> None:
        """Raise ConfigError where the member is not to read one of these."""
        ...

    def leave_paused(self, partitions: Iterable[TopicPartition]) -> None:
        """The application pauses these partitions."""
        ...


class AssignmentState:
    """The assigned partitions of a member with their positions; the `AssignmentHandler` of its runner."""

    def __init__(
        self,
        fetcher: Fetcher,
        coordinator: Coordinator,
        session: Session,
        callbacks: Callbacks,
        reset: OffsetReset,
        metrics: MemberMetrics,
        log: RebalanceLog,
    ) -> None:
        self.partitions: frozenset[TopicPartition] = frozenset()
        """The partitions that the member owns. One that is being revoked is among them until its callback has
        returned."""
        self.work: RunningWork | None = None
        """The call of `Member.work` that runs; it alone commits."""
        self.cut_off: set[TopicPartition] = set()
        """Partitions whose last commit was not acknowledged: brokers may still get it."""
        self.last_error: RequestTimedOutError | None = None
        """Why the committed offsets could not be fetched yet."""
        self._fetcher = fetcher
        self._unfinished = fetcher.unfinished
        self._coordinator = coordinator
        self._callbacks = callbacks
        self._reset = reset
        self._session = session
        self._metrics = metrics
        self._log = log
        metrics.assigned_partitions.observe(lambda: len(self.partitions))
        self._starts: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        """The committed offsets of the partitions that are assigned next, None where there is none."""
        self._last_commits: dict[TopicPartition, OffsetAndMetadata] = {}
        """What the group has committed last, as far as this member knows; not after a `seek`."""
        self._committed: dict[TopicPartition, int] = {}
        self._began_again: dict[TopicPartition, float] = {}
        """When a partition was reset last, in monotonic seconds: earlier commits are not of its log."""
        self._unknown: set[TopicPartition] = set()
        """Partitions of which a transaction of `Member.work` may have committed offsets."""
        # Partitions whose callback is running, with the positions that it may commit, and of which topics they are.
        self._revoking: frozenset[TopicPartition] = frozenset()
        self._revoking_positions: dict[TopicPartition, int] = {}
        self._revoking_topic_ids: dict[TopicPartition, UUID] = {}
        fetcher.observe_resets(self._begin_again)

    # --- rebalances

    async def prepare(self, step: Assign) -> None:
        """Fetch the start offsets, and retry time-outs until cancelled; raises what else `start_offsets` raises."""
        try:
            while True:
                try:
                    self._starts = await self._group_offsets(step.partitions)
                    return
                except RequestTimedOutError as error:
                    # The coordinator may come back; the membership decides how long to wait for that.
                    self.last_error = error
        finally:
            self.last_error = None

    async def _group_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        deadline = self._session.clock() + self._session.timeout_s
        return await start_offsets(self._coordinator, partitions, deadline, self._reset)

    async def assign(self, step: Assign) -> None:
        """Start fetching; no record is returned before the callback has returned."""
        committed = {tp: start for tp, start in self._starts.items() if start is not None}
        self._last_commits.update(committed)
        self._committed.update({tp: start.offset for tp, start in committed.items()})
        self._fetcher.add({tp: start and start.offset for tp, start in self._starts.items()})
        self.partitions |= frozenset(step.partitions)
        self._metrics.rebalance_total.add()
        self._log.assigned(step.partitions, len(self.partitions))
        await self._callbacks.assigned(step.partitions)

    async def revoke(self, step: Revoke) -> None:
        """Stop fetching, and run the callback, which may still commit the positions."""
        revoked = step.partitions
        if not revoked:
            return
        if self.work is not None:
            await self.work.revoke(revoked, is_lost=step.is_lost)
        positions = self._fetcher.positions
        self._revoking = frozenset(revoked)
        self._revoking_positions = {tp: positions[tp] for tp in revoked if tp in positions}
        self._revoking_topic_ids = self.topic_ids(revoked)
        self._fetcher.drop(revoked)
        total = self._metrics.partitions_lost_total if step.is_lost else self._metrics.partitions_revoked_total
        total.add(len(revoked))
        self._log.revoked(revoked, is_lost=step.is_lost)
        try:
            await self._callbacks.revoked(revoked, is_lost=step.is_lost)
        finally:
            self._revoking_positions, self._revoking_topic_ids = {}, {}
            self._revoking = frozenset()
            self.partitions -= frozenset(revoked)
            self._unfinished.forget(revoked)
            self._unknown.difference_update(revoked)
            self.cut_off.difference_update(revoked)
            for tp in revoked:
                self._committed.pop(tp, None)
                self._last_commits.pop(tp, None)
                self._began_again.pop(tp, None)

    # --- positions

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, where it is known."""
        return {**self._fetcher.positions, **self._revoking_positions}

    def uncommitted(self, *, only_finished: bool) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions that differ from the committed offsets; `only_finished`: up to what is not finished."""
        positions = self._unfinished.finished(self.positions) if only_finished else self.positions
        return {tp: OffsetAndMetadata(offset) for tp, offset in positions.items() if self._committed.get(tp) != offset}

    def topic_ids(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, UUID]:
        """The ids of the topics of these partitions, where they are known.

        Of a partition that is read, it is the id of the topic that is read: metadata may have its successor already.
        """
        read = {**self._fetcher.topic_ids, **self._revoking_topic_ids}
        found = {tp: read[tp] for tp in partitions if tp in read}
        unread = [tp for tp in partitions if tp not in read]
        if unread:  # A closed member has none, and knows no cluster any more.
            cluster = self._session.cluster()
            found |= {tp: topic_id for tp in unread if (topic_id := cluster.topic_id(tp.topic)) is not None}
        return found

    @property
    def readable(self) -> frozenset[TopicPartition]:
        """The owned partitions that are not being revoked."""
        return self.partitions - self._revoking

    def seek(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Continue to read `readable` partitions at these offsets, as `Fetcher.add` takes them."""
        for tp in offsets:
            self._last_commits.pop(tp, None)
        self._unknown.difference_update(offsets)
        self._unfinished.forget(offsets)
        self._fetcher.add(offsets)

    def _begin_again(self, tp: TopicPartition) -> None:
        """The log does not have the position, or is another one: nothing of what is known about its offsets holds."""
        self._began_again[tp] = self._session.clock()
        self._last_commits.pop(tp, None)
        self._committed.pop(tp, None)
        self._unknown.discard(tp)
        self._unfinished.forget([tp])
        if self.work is not None:
            self.work.begin_again(tp)

    def skip(self, tp: TopicPartition, offset: int) -> None:
        """The records of a `readable` partition before this offset are finished: continue there, or further on."""
        self._unfinished.finish({tp: offset})
        if self._fetcher.positions.get(tp, offset) < offset:
            self._fetcher.add({tp: offset})

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets, None where there is none; raises what `stable_offsets` raises."""
        requested = tuple(partitions)
        deadline = self._session.clock() + self._session.timeout_s
        return await stable_offsets(self._coordinator, requested, deadline, may_be_old=True) if requested else {}

    async def rewind(self, partitions: Collection[TopicPartition]) -> None:
        """Seek to the committed offsets, or, where there is none, to where this member started to read.

        Raises what `start_offsets` raises: then nothing has changed.
        """
        committed = await self._group_offsets(partitions)
        starts = self._fetcher.starts
        readable = {tp: at for tp, at in committed.items() if tp in self.readable}
        self.seek({tp: starts.get(tp) if at is None else at.offset for tp, at in readable.items()})
        self._last_commits.update({tp: at for tp, at in readable.items() if at is not None})

    async def commit(
        self,
        metadata: GroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
        *,
        topic_ids: Mapping[TopicPartition, UUID] | None = None,
        is_regular: bool = False,
    ) -> None:
        """Commit as that member; raises what `commit_offsets` raises.

        `topic_ids` are those of the time at which the offsets were chosen, by default of now. A commit that is regular
        is followed by another one: a topic that was deleted holds it up for seconds only.
        """
        began = self._session.clock()
        self.cut_off.update(self.partitions.intersection(offsets))
        try:
            await commit_offsets(
                self._coordinator,
                metadata,
                offsets,
                deadline,
                topic_ids=self.topic_ids(offsets) if topic_ids is None else topic_ids,
                tries_max=_REGULAR_TRIES if is_regular else None,
            )
        except AioprodError:
            self._metrics.commit_failed_total.add()
            raise
        self.cut_off.difference_update(offsets)
        self._metrics.commit_total.add()
        self._metrics.commit_latency.record((self._session.clock() - began) * 1000)
        self.has_committed({tp: given for tp, given in offsets.items() if self._began_again.get(tp, -math.inf) < began})

    def has_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These are committed, by this or by a transaction."""
        owned = {tp: given for tp, given in offsets.items() if tp in self.partitions}
        committed = {tp: given.offset for tp, given in owned.items()}
        self._last_commits.update(owned)
        self._unknown.difference_update(owned)
        self._committed.update(committed)
        self._unfinished.finish(committed)

    # --- work

    @contextmanager
    def worked_on_by(self, work: RunningWork) -> Iterator[None]:
        """Let `work` finish what it can before partitions are revoked; raises UsageError while another one runs."""
        if self.work is not None:
            raise UsageError("work() runs already: one call at a time, with a higher concurrency.")
        self.work = work
        positions = self.positions
        finished = self._unfinished.finished(positions)
        self._read_again({tp: at for tp, at in finished.items() if at < positions[tp]})
        self._unfinished.forget(positions)
        try:
            yield
        finally:
            self.work = None

    def last_commit(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """What the group has committed last for a partition of this member; None where that is not known."""
        return self._last_commits.get(tp)

    def worked_on(self, progress: Mapping[TopicPartition, WorkProgress], unknown: Collection[TopicPartition]) -> None:
        """The work on these partitions ends: continue to read at the first record that is not finished.

        For `unknown` ones a commit could take back what a transaction has committed.
        """
        self._unfinished.forget(progress)
        self._read_again({tp: one.low for tp, one in progress.items() if one.low < one.next})
        self._unknown.update(unknown)
        for tp in unknown:
            self._committed[tp] = progress[tp].low

    async def read_unknown_again(self) -> None:
        """Continue to read at the committed offsets where a transaction may have committed; raises as `rewind`."""
        if unknown := self._unknown & self.readable:
            await self.rewind(unknown)

    def _read_again(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue to read from these offsets, as far as the partitions are `readable`."""
        self._fetcher.add({tp: offset for tp, offset in offsets.items() if tp in self.readable})
