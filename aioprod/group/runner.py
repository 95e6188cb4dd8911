"""Does what a membership wants done: its steps in one lane, its heartbeats in another, each in a task."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from aioprod.cluster.model import PartitionInfo
from aioprod.cluster.topic_errors import topic_error
from aioprod.errors import AioprodError, MetadataTimeoutError, UnknownTopicError
from aioprod.group.gate import Gate
from aioprod.group.membership import Ask, Describe, Failed, GiveUp, Left, Membership, Step, Take, Wait
from aioprod.group.watch import Watch
from aioprod.net import Coordinator
from aioprod.net.session import Session

__all__ = ["Hands", "Runner"]


class Hands(Protocol):
    """What the runner does not know how to do: reading, and calling the user."""

    async def prepare(self, take: Take) -> None:
        """Find out where to begin; may be broken off."""
        ...

    async def take(self, take: Take) -> None:
        """Call the user, then begin to read; between two records."""
        ...

    async def give_up(self, give_up: GiveUp) -> None:
        """Stop reading, then call the user; between two records."""
        ...


class Runner:
    """Carries a `membership` out until it is over; `wake` whenever it was told something.

    `topics` are those that the member reads; `standstill` warns when nothing moves. What a step raises ends the
    membership: the member leaves, then it comes out of `run`.
    """

    def __init__(
        self,
        membership: Membership,
        coordinator: Coordinator,
        session: Session,
        gate: Gate,
        hands: Hands,
        standstill: Watch,
        topics: frozenset[str],
    ) -> None:
        self._membership = membership
        self._coordinator = coordinator
        self._session = session
        self._gate = gate
        self._hands = hands
        self._standstill = standstill
        self._clock = session.clock
        self.topics = topics
        self._led: frozenset[str] = frozenset()
        self._news = asyncio.Event()
        self._beats = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_firm = False
        self._failure: Exception | None = None

    def wake(self) -> None:
        """Something was told: both lanes look again."""
        self._gate.hold(True)
        self._news.set()
        self._beats.set()
        self._changed.set()

    async def settled(self, timeout_s: float) -> None:
        """Wait until the membership has got on, for that time at most."""
        self._changed.clear()
        await _within(self._changed.wait(), timeout_s)

    async def run(self, *more: Coroutine[Any, Any, None]) -> None:
        """Do all lanes, and those `more`, until the member has left; raises why it can't go on."""
        self.wake()
        work = (self._steps(), self._heartbeats(), self._watch(), self._standstill.run(lambda: self.topics), *more)
        lanes = [asyncio.create_task(lane) for lane in work]
        try:
            while not lanes[0].done():
                await asyncio.wait([lane for lane in lanes if not lane.done()], return_when=asyncio.FIRST_COMPLETED)
                for lane in lanes:
                    if lane.done():
                        lane.result()
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    # -- the main lane

    async def _steps(self) -> None:
        while True:
            self._news.clear()
            step = self._step()
            self._gate.hold(isinstance(step, GiveUp))
            if isinstance(step, (Left, Failed)):
                error = self._failure if isinstance(step, Left) else step.error
                if error is not None:
                    raise error
                return
            if isinstance(step, Wait):
                # To come to this step may have made a heartbeat due.
                self._beats.set()
                await _within(self._news.wait(), step.until - self._clock())
                continue
            try:
                await self._unless_changed(step, self._done(step))
            except Exception as error:
                self._fail(error)
            self.wake()

    def _fail(self, error: Exception) -> None:
        if self._failure is not None:
            # It could not even leave.
            raise error from self._failure
        self._failure = error
        self._membership.leave(self._clock())
        self.wake()

    def _step(self) -> Step:
        now = self._clock()
        if self._gate.is_waiting:
            self._membership.polled(now)
        return self._membership.step(now)

    async def _unless_changed(self, step: Step, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a step; break it off when the membership wants something else meanwhile."""
        self._is_firm = False
        task = asyncio.create_task(work)
        try:
            while not task.done():
                news = asyncio.create_task(self._news.wait())
                try:
                    await asyncio.wait([task, news], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                self._news.clear()
                if task.done() or self._is_firm:
                    continue
                if self._step() != step:
                    break
                self._gate.hold(isinstance(step, GiveUp))
            else:
                task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
                if isinstance(step, Ask):
                    self._coordinator.disconnect()

    async def _done(self, step: Step) -> None:
        if isinstance(step, Ask):
            await self._ask(step)
        elif isinstance(step, Describe):
            self._led = step.topics
            self._membership.described(await self._described(step.topics), self._clock())
            # Those that were described first may have grown since then.
            self._membership.topics_changed(self._counts, self._clock())
        elif isinstance(step, GiveUp):
            async with self._gate.between_records():
                if self._is_still(step):
                    await self._hands.give_up(step)
                    self._membership.gave_up(self._clock())
        elif isinstance(step, Take):
            await self._hands.prepare(step)
            async with self._gate.between_records():
                if self._is_still(step):
                    await self._hands.take(step)
                    self._membership.took(self._clock())

    def _is_still(self, step: Step) -> bool:
        """Whether that is still to be done; from now on nothing breaks it off."""
        self._is_firm = self._step() == step
        return self._is_firm

    async def _ask(self, ask: Ask) -> None:
        deadline = self._clock() + ask.timeout_s
        try:
            answer = await self._coordinator.request(ask.request, deadline=deadline, patience_s=ask.timeout_s)
        except AioprodError as error:
            self._membership.unanswered(error, self._clock())
        else:
            self._membership.answered(answer, self._clock())
        self.wake()

    # -- topics

    async def _described(self, topics: frozenset[str]) -> Mapping[str, Sequence[PartitionInfo]]:
        names = sorted(topics)
        found = await asyncio.gather(*map(self._partitions, names))
        return {name: partitions for name, partitions in zip(names, found, strict=True) if partitions}

    async def _partitions(self, topic: str) -> Sequence[PartitionInfo]:
        while True:
            try:
                return await self._session.partitions(topic)
            except UnknownTopicError:
                return ()
            except MetadataTimeoutError:
                # Brokers may come back; until then the membership decides how long this goes on.
                continue

    def subscribe(self, topics: frozenset[str]) -> None:
        """Have the member read these topics from now on, in place of those before."""
        self._membership.subscribe(topics, self._clock())
        self.topics = topics
        self.wake()
        self._session.notify()

    async def _watch(self) -> None:
        """Tell the membership how many partitions its topics have, and as the leader all topics, when that changes."""
        metadata = self._session.client.metadata
        told: dict[str, int] = {}
        while True:
            self._session.track(self._watched)
            for topic in self._watched:
                error = topic_error(metadata, topic, self._clock(), to_write=False)
                if error is not None and not isinstance(error, UnknownTopicError):
                    self._fail(error)
                    return
            if (counts := self._counts) != told:
                told = counts
                self._membership.topics_changed(counts, self._clock())
                self.wake()
            await self._session.change(math.inf)

    @property
    def _watched(self) -> frozenset[str]:
        return self.topics | self._led

    @property
    def _counts(self) -> dict[str, int]:
        cluster = self._session.client.metadata.cluster
        return {topic: cluster.partition_count(topic) for topic in self._watched}

    # -- the lane of heartbeats

    async def _heartbeats(self) -> None:
        while True:
            self._beats.clear()
            if self._gate.is_waiting:
                self._membership.polled(self._clock())
            at = self._membership.heartbeat_at
            if self._clock() < at:
                await _within(self._beats.wait(), at - self._clock())
                continue
            request = self._membership.heartbeat(self._clock())
            self.wake()
            if request is None:
                continue
            try:
                answer = await self._coordinator.request(request, deadline=self._clock() + self._session.timeout_s)
            except AioprodError as error:
                self._membership.heartbeat_unanswered(error, self._clock())
            else:
                self._membership.heartbeat_answered(answer, self._clock())
            self.wake()


async def _within(wait: Coroutine[Any, Any, Any], timeout_s: float) -> None:
    """Wait for that, but not longer."""
    try:
        async with asyncio.timeout(None if math.isinf(timeout_s) else max(0.0, timeout_s)):
            await wait
    except TimeoutError:
        pass
