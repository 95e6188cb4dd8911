"""Carries out a membership: tasks do its steps, send its heartbeats, and watch the partition counts of its topics."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.cluster.model import PartitionInfo
from aioprod.cluster.topic_errors import topic_error
from aioprod.errors import AioprodError, MetadataTimeoutError, UnknownTopicError
from aioprod.group.membership import (
    Assign,
    Compute,
    DescribeTopics,
    Failed,
    LeftGroup,
    Membership,
    Revoke,
    SendRequest,
    Step,
    Wait,
)
from aioprod.group.poll_gate import PollGate
from aioprod.group.stall_monitor import StallMonitor
from aioprod.messages.negotiation import ByVersion
from aioprod.wire.schema import Request

__all__ = ["AssignmentHandler", "Runner"]


class AssignmentHandler(Protocol):
    """Starts and stops to read partitions, and runs the callbacks of the user."""

    async def prepare(self, step: Assign) -> None:
        """Fetch the start offsets; may be cancelled."""
        ...

    async def assign(self, step: Assign) -> None:
        """Start reading, and run the callback; called between two polls."""
        ...

    async def revoke(self, step: Revoke) -> None:
        """Stop reading, and run the callback; called between two polls."""
        ...


class Runner:
    """Runs a `membership` until it ends; call `wake` after each event that it was given.

    `topics` is the subscription. An exception in a step makes the member leave, and is raised from `run` then.
    """

    def __init__(
        self,
        membership: Membership,
        coordinator: Coordinator,
        session: Session,
        gate: PollGate,
        handler: AssignmentHandler,
        stall_monitor: StallMonitor,
        topics: frozenset[str],
    ) -> None:
        self._membership = membership
        self._coordinator = coordinator
        self._session = session
        self._gate = gate
        self._handler = handler
        self._stall_monitor = stall_monitor
        self._clock = session.clock
        self.topics = topics
        self._group_topics: frozenset[str] = frozenset()
        self._step_wake = asyncio.Event()
        self._heartbeat_wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._is_uncancellable = False
        self.heartbeat_at: float | None = None
        """When the coordinator answered a heartbeat last, in monotonic seconds."""
        self._failure: Exception | None = None

    def wake(self) -> None:
        """The membership has a new event: wake the step task and the heartbeat task."""
        self._gate.block(True)
        self._step_wake.set()
        self._heartbeat_wake.set()
        self._progress.set()

    async def wait_for_progress(self, timeout_s: float) -> None:
        """Wait for the next event, up to `timeout_s`."""
        self._progress.clear()
        await _within(self._progress.wait(), timeout_s)

    async def run(self, *more: Coroutine[Any, Any, None]) -> None:
        """Run all tasks, and `more`, until the member has left; raises the error that has ended it."""
        self.wake()
        stall_monitor = self._stall_monitor.run(lambda: self.topics)
        work = (self._steps(), self._heartbeats(), self._watch_topics(), stall_monitor, *more)
        tasks = [asyncio.create_task(one) for one in work]
        try:
            while not tasks[0].done():
                await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- steps

    async def _steps(self) -> None:
        while True:
            self._step_wake.clear()
            step = self._step()
            self._gate.block(isinstance(step, Revoke))
            if isinstance(step, (LeftGroup, Failed)):
                error = self._failure if isinstance(step, LeftGroup) else step.error
                if error is not None:
                    raise error
                return
            if isinstance(step, Wait):
                # The membership may have got here by an event that makes a heartbeat due.
                self._heartbeat_wake.set()
                await _within(self._step_wake.wait(), step.until - self._clock())
                continue
            try:
                await self._do(step, self._work_of(step))
            except Exception as error:
                self._fail(error)
            self.wake()

    def _fail(self, error: Exception) -> None:
        if self._failure is not None:
            # Leaving has failed, too.
            raise error from self._failure
        self._failure = error
        self._membership.leave(self._clock())
        self.wake()

    def _step(self) -> Step:
        now = self._clock()
        if self._gate.is_polling:
            self._membership.polled(now)
        return self._membership.step(now)

    async def _do(self, step: Step, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a step; cancel it when the membership has another step meanwhile."""
        self._is_uncancellable = False
        task = asyncio.create_task(work)
        try:
            while not task.done():
                woken = asyncio.create_task(self._step_wake.wait())
                try:
                    await asyncio.wait([task, woken], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
                self._step_wake.clear()
                if task.done() or self._is_uncancellable:
                    continue
                if self._step() != step:
                    break
                self._gate.block(isinstance(step, Revoke))
            else:
                task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
                if isinstance(step, SendRequest):
                    self._coordinator.disconnect()

    async def _work_of(self, step: Step) -> None:
        if isinstance(step, SendRequest):
            await self._send(step)
        elif isinstance(step, DescribeTopics):
            self._group_topics = step.topics
            self._membership.topics_described(await self._describe(step.topics), self._clock())
            # Topics that were described first may have new partitions since then.
            self._membership.topics_changed(self._partition_counts, self._clock())
        elif isinstance(step, Compute):
            apply = await asyncio.to_thread(step.work)
            if self._step() == step:
                apply()
        elif isinstance(step, Revoke):
            async with self._gate.between_polls():
                if self._begin_if_current(step):
                    await self._handler.revoke(step)
                    self._membership.revoked(self._clock())
        elif isinstance(step, Assign):
            await self._handler.prepare(step)
            async with self._gate.between_polls():
                if self._begin_if_current(step):
                    await self._handler.assign(step)
                    self._membership.assigned(self._clock())

    def _begin_if_current(self, step: Step) -> bool:
        """Whether the step is still the one to do; if so, it is not cancelled from now on."""
        self._is_uncancellable = self._step() == step
        return self._is_uncancellable

    async def _send(self, step: SendRequest) -> None:
        deadline = self._clock() + step.timeout_s
        try:
            response = await self._coordinator.request(step.request, deadline=deadline, patience_s=step.timeout_s)
        except AioprodError as error:
            self._membership.request_failed(error, self._clock())
        else:
            try:
                self._membership.response_received(response, self._clock())
            except Exception as error:  # of any type: it is the coordinator's failure
                self._membership.request_failed(self._unforeseen(step.request, error), self._clock())
        self.wake()

    def _unforeseen(self, request: Request[Any] | ByVersion[Any], error: Exception) -> AioprodError:
        return self._session.client.unforeseen.failure(f"Applying the answer to {request.NAME}", error)

    # --- topics

    async def _describe(self, topics: frozenset[str]) -> Mapping[str, Sequence[PartitionInfo]]:
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
                # Brokers may come back; the membership decides how long to wait for that.
                continue

    def subscribe(self, topics: frozenset[str]) -> None:
        """Replace the subscription."""
        self._membership.subscribe(topics, self._clock())
        self.topics = topics
        self.wake()
        self._session.notify()

    async def _watch_topics(self) -> None:
        """Report changes of partition counts: of the member's topics, and as the leader of all topics of the group."""
        metadata = self._session.client.metadata
        reported: dict[str, int] = {}
        while True:
            self._session.track(self._watched_topics)
            for topic in self._watched_topics:
                error = topic_error(metadata, topic, self._clock(), to_write=False)
                if error is not None and not isinstance(error, UnknownTopicError):
                    self._fail(error)
                    return
            if (counts := self._partition_counts) != reported:
                reported = counts
                self._membership.topics_changed(counts, self._clock())
                self.wake()
            await self._session.change(math.inf)

    @property
    def _watched_topics(self) -> frozenset[str]:
        return self.topics | self._group_topics

    @property
    def _partition_counts(self) -> dict[str, int]:
        cluster = self._session.cluster()
        return {topic: cluster.partition_count(topic) for topic in self._watched_topics}

    # --- heartbeats

    async def _heartbeats(self) -> None:
        while True:
            self._heartbeat_wake.clear()
            if self._gate.is_polling:
                self._membership.polled(self._clock())
            at = self._membership.heartbeat_at
            if self._clock() < at:
                await _within(self._heartbeat_wake.wait(), at - self._clock())
                continue
            request = self._membership.heartbeat(self._clock())
            self.wake()
            if request is None:
                continue
            try:
                response = await self._coordinator.request(request, deadline=self._clock() + self._session.timeout_s)
            except AioprodError as error:
                self._membership.heartbeat_failed(error, self._clock())
            else:
                self.heartbeat_at = self._clock()
                try:
                    self._membership.heartbeat_response_received(response, self.heartbeat_at)
                except Exception as error:  # of any type: it is the coordinator's failure
                    self._membership.heartbeat_failed(self._unforeseen(request, error), self._clock())
            self.wake()


async def _within(wait: Coroutine[Any, Any, Any], timeout_s: float) -> None:
    """Wait, but no longer than `timeout_s`."""
    try:
        async with asyncio.timeout(None if math.isinf(timeout_s) else max(0.0, timeout_s)):
            await wait
    except TimeoutError:
        pass
