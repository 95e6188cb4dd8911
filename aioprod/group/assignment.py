"""What a member holds: it reads from where the group has got to, tells the user what comes and goes, and commits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from aioprod.errors import AioprodError, ConfigError, RequestTimedOutError
from aioprod.group.committed_offsets import stable_offsets
from aioprod.group.fetcher import Fetcher
from aioprod.group.membership import GiveUp, Take
from aioprod.group.meters import MemberMetrics
from aioprod.group.offsets import commit_offsets, start_offsets
from aioprod.net import Coordinator
from aioprod.net.session import Session
from aioprod.types import GroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["Callback", "Callbacks", "Holding"]

Callback: TypeAlias = Callable[[Iterable[TopicPartition]], Any] | None
"""A function or coroutine function that is told of partitions."""


class Callbacks:
    """What the user wants to hear of; what one raises goes to `failed`, and the member goes on. Raises
    ConfigError for what can't be called."""

    def __init__(
        self, assigned: Callback, revoked: Callback, lost: Callback, failed: Callable[[Exception], object]
    ) -> None:
        for name, given in (("on_assigned", assigned), ("on_revoked", revoked), ("on_lost", lost)):
            if given is not None and not callable(given):
                raise ConfigError(f"{name} is {given!r:.60}: give a function or coroutine function, or leave it out.")
        self._assigned = assigned
        self._revoked = revoked
        # As in Java: who has no callback for it hears of it as of any other that is gone.
        self._lost = revoked if lost is None else lost
        self._failed = failed

    async def assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        """These are read from now on."""
        await self._call(self._assigned, partitions)

    async def gone(self, partitions: tuple[TopicPartition, ...], *, is_lost: bool) -> None:
        """These are not read any more."""
        await self._call(self._lost if is_lost else self._revoked, partitions)

    async def _call(self, callback: Callback, partitions: tuple[TopicPartition, ...]) -> None:
        if callback is None:
            return
        try:
            made = callback(partitions)
            if inspect.isawaitable(made):
                await made
        except Exception as error:
            self._failed(error)


class Holding:
    """The partitions of a member with their positions; `Hands` for its runner.

    `assignment` is what it owns; a callback still finds in it what it is told to be gone. `trouble` is why it is not
    known yet where the group has got to.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        coordinator: Coordinator,
        session: Session,
        callbacks: Callbacks,
        auto_offset_reset: str,
        metrics: MemberMetrics,
    ) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.trouble: RequestTimedOutError | None = None
        self._fetcher = fetcher
        self._coordinator = coordinator
        self._callbacks = callbacks
        self._auto_offset_reset = auto_offset_reset
        self._session = session
        self._metrics = metrics
        metrics.assigned_partitions.read = lambda: len(self.assignment)
        self._starts: Mapping[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        # What is being given up, and its positions.
        self._leaving: frozenset[TopicPartition] = frozenset()
        self._going: dict[TopicPartition, int] = {}

    # -- Hands

    async def prepare(self, take: Take) -> None:
        """Ask where the group has got to, until that is known; raises what `start_offsets` raises for good."""
        try:
            while True:
                try:
                    self._starts = await self._group_offsets(take.partitions)
                    return
                except RequestTimedOutError as error:
                    # The coordinator may come back; until then the membership decides how long this goes on.
                    self.trouble = error
        finally:
            self.trouble = None

    async def _group_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        deadline = self._session.clock() + self._session.timeout_s
        return await start_offsets(self._coordinator, partitions, deadline, auto_offset_reset=self._auto_offset_reset)

    async def take(self, take: Take) -> None:
        """Begin to read; nothing is given out before the callback has returned."""
        self._committed.update({tp: offset for tp, offset in self._starts.items() if offset >= 0})
        self._fetcher.add(self._starts)
        self.assignment |= frozenset(take.partitions)
        self._metrics.rebalance_total.add()
        await self._callbacks.assigned(take.partitions)

    async def give_up(self, give_up: GiveUp) -> None:
        """Stop reading; the callback may still commit how far that has got."""
        gone = give_up.partitions
        if not gone:
            return
        positions = self._fetcher.positions
        self._leaving = frozenset(gone)
        self._going = {tp: positions[tp] for tp in gone if tp in positions}
        self._fetcher.drop(gone)
        total = self._metrics.partitions_lost_total if give_up.is_lost else self._metrics.partitions_revoked_total
        total.add(len(gone))
        try:
            await self._callbacks.gone(gone, is_lost=give_up.is_lost)
        finally:
            self._going = {}
            self._leaving = frozenset()
            self.assignment -= frozenset(gone)
            for tp in gone:
                self._committed.pop(tp, None)

    # -- positions

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, as far as it is known."""
        return {**self._fetcher.positions, **self._going}

    @property
    def uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions that the group does not have yet."""
        return {
            tp: OffsetAndMetadata(offset) for tp, offset in self.positions.items() if self._committed.get(tp) != offset
        }

    @property
    def readable(self) -> frozenset[TopicPartition]:
        """What it owns and does not give up just now."""
        return self.assignment - self._leaving

    def seek(self, places: Mapping[TopicPartition, int]) -> None:
        """Go on reading partitions at these offsets, EARLIEST or LATEST; they have to be `readable`."""
        self._fetcher.add(places)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has, None for nothing; raises what `stable_offsets` raises."""
        wanted = tuple(partitions)
        deadline = self._session.clock() + self._session.timeout_s
        return await stable_offsets(self._coordinator, wanted, deadline, may_be_old=True) if wanted else {}

    async def rewind(self) -> None:
        """Go back to where the group has got to, or, where it has committed nothing, to where this member began.

        Raises what `start_offsets` raises: then nothing has changed.
        """
        committed = await self._group_offsets(self.readable)
        begun = self._fetcher.starts
        back = {tp: begun.get(tp, at) if at < 0 else at for tp, at in committed.items() if tp in self.readable}
        self._fetcher.add(back)

    async def commit(
        self, metadata: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float
    ) -> None:
        """Commit as that member; raises what `commit_offsets` raises."""
        began = self._session.clock()
        try:
            await commit_offsets(self._coordinator, metadata, offsets, deadline)
        except AioprodError:
            self._metrics.commit_failed_total.add()
            raise
        self._metrics.commit_total.add()
        self._metrics.commit_latency.record((self._session.clock() - began) * 1000)
        self._committed.update({tp: offset for tp, (offset, _) in offsets.items() if tp in self.assignment})
