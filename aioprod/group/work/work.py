"""The work of a member: handlers for many records at once, commits of what is finished, and the end of both."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from functools import partial
from typing import Final, TypeAlias

from aioprod._short_reprs import shown_error
from aioprod._words import counted
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, SerializationError
from aioprod.group.assignment import AssignmentState
from aioprod.group.background import BackgroundTask
from aioprod.group.fetcher import Fetcher
from aioprod.group.member_log import MemberLog, place_fields
from aioprod.group.membership import Membership
from aioprod.group.work.commits import NoRoomYetError, WorkCommits
from aioprod.group.work.letter_sender import LetterSender
from aioprod.group.work.marks import NOTHING, decoded, length_of
from aioprod.group.work.plan import Plan, check_topics
from aioprod.group.work.progress import Progress
from aioprod.group.work.queues import Job, Queues
from aioprod.group.work.room import Room
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["Work"]

Fetch: TypeAlias = Callable[[], Awaitable[list[ConsumedRecord] | None]]

_CANCELLED: Final = "The handler was cancelled, and not by the member."
_CHECK_S: Final = 1.0
"""The time between two looks at handlers that take long."""


class Work:
    """One call of `Member.work`: receives records, runs handlers, and commits what they have finished."""

    def __init__(
        self,
        plan: Plan,
        fetcher: Fetcher,
        assignment: AssignmentState,
        membership: Membership,
        session: Session,
        background: BackgroundTask,
        commits: WorkCommits,
        letters: LetterSender | None,
        long_s: float,
        log: MemberLog,
    ) -> None:
        self._plan = plan
        self._fetcher = fetcher
        self._assignment = assignment
        self._membership = membership
        self._session = session
        self._background = background
        self._commits = commits
        self._letters = letters
        self._long_s = long_s
        """A handler that runs longer is logged: `max.poll.interval.ms`."""
        self._log = log
        self._queues = Queues()
        self._room = Room(fetcher, assignment, self._queues, plan.buffer_bytes, plan.concurrency)
        self._running: dict[Job, asyncio.Task[None]] = {}
        self._cancelled: dict[Job, asyncio.Task[None]] = {}
        """Handlers that were cancelled and have not ended yet: several calls of `_stop` may wait for them."""
        self._waiting: dict[Job, asyncio.TimerHandle] = {}
        """Records whose handler has failed, until it is called again."""
        self._drain_s = plan.drain_s
        self._failure: BaseException | None = None
        """The error that ends the work: the first one of a handler."""
        self._failed_place = ""
        """The record of that handler."""

    # --- receiving

    async def run(self, poll: Callable[[Fetch], Awaitable[list[ConsumedRecord]]]) -> None:
        """Work until the member is closed; `poll` waits for some records. Raises what a handler raised, or a poll."""
        try:
            await self._run(poll)
        except BaseException as error:
            if self._failure is not None and self._failure is not error:
                text = "has a handler that failed, of %s: %s. Its work has ended with another error"
                self._log.warning(text, self._failed_place, shown_error(self._failure))
            raise
        if self._failure is not None:
            raise self._failure

    async def _run(self, poll: Callable[[Fetch], Awaitable[list[ConsumedRecord]]]) -> None:
        await self._assignment.read_unknown_again()
        watch = asyncio.ensure_future(self._watch())
        is_cancelled = False
        try:
            while True:
                self._receive(await poll(self._fetch))
        except StopAsyncIteration:
            pass
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            try:
                await self._stop(self._partitions, 0.0 if is_cancelled else self._drain_s)
            finally:
                # Not before: a commit that is cut off could arrive after a letter's transaction.
                watch.cancel()
                self._room.close()
                self._commits.forget(tuple(self._commits.progress))

    async def _fetch(self) -> list[ConsumedRecord] | None:
        if self._failure is not None:
            raise self._failure
        return await self._fetcher.next_list(self._room.records, 0.0, as_stored=True)

    def _receive(self, records: Iterable[ConsumedRecord]) -> None:
        largest, partitions = 0, set()
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            progress = self._progress_of(tp, record.offset)
            if progress.receive(record.offset):
                size = _size(record)
                largest = max(largest, size)
                partitions.add(tp)
                self._queues.add(self._queue_name(record, tp), record, tp, progress, size)
        self._room.received(partitions, largest)
        self._start()

    def _progress_of(self, tp: TopicPartition, offset: int) -> Progress:
        """Where the work on a partition stands. It begins again where an offset does: the log is another one."""
        progress = self._commits.progress.get(tp)
        if progress is None or offset < progress.next:
            committed = self._assignment.last_commit(tp) if progress is None else None
            marks = NOTHING if committed is None else decoded(committed.offset, committed.metadata)
            if committed is not None:
                # Letters of the former owner may be marked, which must fit into each commit.
                self._commits.room.stored(length_of(committed.metadata))
            progress = self._commits.progress[tp] = Progress(offset, marks, self._commits.room)
        return progress

    def _queue_name(self, record: ConsumedRecord, tp: TopicPartition) -> Hashable:
        if self._plan.order == "partition":
            return tp
        if self._plan.order == "key" and record.key is not None:
            return tp, record.key
        return tp, record.offset

    # --- handlers

    def _start(self) -> None:
        """Call as many handlers as may run: none after the failure of one."""
        if self._failure is not None:
            return
        loop = asyncio.get_running_loop()
        while len(self._running) < self._plan.concurrency and (job := self._queues.take()) is not None:
            job.started_at, job.warned = self._session.clock(), False
            task = loop.create_task(self._handle(job))
            self._running[job] = task
            task.add_done_callback(partial(self._ended, job))

    async def _handle(self, job: Job) -> None:
        """Call the handler once; raises what it raises, unless a dead letter is sent."""
        if job.letter_error is None and not await self._has_failed(job):
            return
        assert self._letters is not None
        assert job.letter_error is not None
        await self._letters.send(job, job.letter_error)

    async def _has_failed(self, job: Job) -> bool:
        """Call the handler once; True if it has failed for good, and its letter is to be sent."""
        try:
            await self._plan.handler(await self._fetcher.deserialized(job.record))
        except (Exception, asyncio.CancelledError) as raised:
            if job not in self._running or _is_cancelled():
                raise
            job.failures += 1
            error = raised
            if isinstance(raised, asyncio.CancelledError):
                error = AioprodError(_CANCELLED)
            if self._letters is None or self._may_retry(job, error):
                raise error from raised.__cause__
            job.letter_error = error
            return True
        return False

    def _may_retry(self, job: Job, error: BaseException) -> bool:
        """A record that can't be deserialized stays so."""
        is_unreadable = type(error) is SerializationError and error.offset is not None
        has_failed = job.letter_error is not None or is_unreadable or not isinstance(error, Exception)
        return not has_failed and job.failures <= self._plan.retry.times

    def _ended(self, job: Job, task: asyncio.Task[None]) -> None:
        """A handler has ended. One that was cancelled, as its partition is revoked, was forgotten before."""
        if self._running.get(job) is not task:
            self._cancelled.pop(job, None)
            if not task.cancelled():
                task.exception()
            return
        del self._running[job]
        if task.cancelled():
            self._fail(job, AioprodError(_CANCELLED))
        elif (error := task.exception()) is None:
            job.progress.finish(job.record.offset)
            self._queues.done(job)
            self._room.finished(job.tp)
        elif isinstance(error, NoRoomYetError):
            # Its letter waits, and is none of the handlers that run at once: records before it are handled first.
            self._queues.again(job)
        elif self._may_retry(job, error):
            self._retry(job, error)
        else:
            self._fail(job, error)
        self._start()

    def _retry(self, job: Job, error: BaseException) -> None:
        delay_s = self._plan.retry.delay_s(job.failures)
        self._log.warning(
            "handles %s again in %.1f s, after %s of its handler: %s",
            job.place,
            delay_s,
            counted(job.failures, "failure"),
            shown_error(error),
            extra=place_fields([job.tp]),
        )
        self._waiting[job] = asyncio.get_running_loop().call_later(delay_s, self._again, job)

    def _again(self, job: Job) -> None:
        del self._waiting[job]
        self._queues.again(job)
        self._start()

    def _fail(self, job: Job, error: BaseException) -> None:
        """The work ends with this error; other handlers may finish."""
        if self._failure is not None:
            text = "has another handler that failed, of %s: %s"
            self._log.warning(text, job.place, shown_error(error), extra=place_fields([job.tp]))
            return
        error.add_note(f"It was raised by the handler of {job.place}.")
        self._failure, self._failed_place = error, job.place
        self._background.interrupt_poll()

    async def _watch(self) -> None:
        """Log handlers that take long, and commit at intervals."""
        committed_at = self._session.clock()
        while True:
            await asyncio.sleep(_CHECK_S)
            now = self._session.clock()
            for job in self._running:
                if now - job.started_at > self._long_s and not job.warned:
                    job.warned = True
                    self._log.warning(
                        "has handled %s for %.0f s, longer than max.poll.interval.ms: later records of its key wait",
                        job.place,
                        now - job.started_at,
                        extra=place_fields([job.tp]),
                    )
            if now - committed_at >= self._commits.interval_s and not self._membership.is_rebalancing:
                committed_at = now
                await self._commits.commit_or_log()

    # --- the end

    async def commit(self) -> None:
        """Commit what is finished; raises what `commit_offsets` raises."""
        await self._commits.commit()

    async def revoke(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> None:
        """Let the handlers of these partitions finish, cancel those that don't in time, and commit what is finished."""
        try:
            await self._stop(frozenset(partitions), None if is_lost else self._drain_s)
        finally:
            self._room.leave_paused(partitions)
            self._commits.forget(partitions)
            self._start()

    @property
    def is_in_handler(self) -> bool:
        """Whether the current task is a handler."""
        return asyncio.current_task() in self._running.values()

    def begin_again(self, tp: TopicPartition) -> None:
        """The partition has another log now. The records of the one before are still handled."""
        self._commits.begin_again(tp)

    def limit_drain(self, timeout_s: float) -> None:
        """The member is closed within this time: a third is for handlers, and another one for those that ignore it."""
        self._drain_s = min(self._drain_s, timeout_s / 3)

    def check_topics(self, topics: frozenset[str], pattern: re.Pattern[str] | None) -> None:
        """Raise ConfigError where these are the dead letters'."""
        check_topics(self._plan, topics, pattern)

    def leave_paused(self, partitions: Iterable[TopicPartition]) -> None:
        """The application pauses these partitions, and only it resumes them."""
        self._room.leave_paused(partitions)

    async def _stop(self, partitions: frozenset[TopicPartition], drain_s: float | None) -> None:
        """End the work on these partitions; None: they are lost, and nothing is committed.

        Cancelled itself, it cancels the handlers, and neither waits for them nor commits.
        """
        self._queues.stop(partitions)
        try:
            running = self._running_of(partitions)
            if running and drain_s:
                await asyncio.wait(running.values(), timeout=drain_s)
            await self._until_cancelled(self._cancel(partitions))
            if drain_s is not None:
                await self._commits.commit_or_log(partitions)
        finally:
            for job in self._cancel(partitions):
                # One that has just ended, where this is cancelled: its record is forgotten before `_ended` is called.
                self._running.pop(job, None)
            for job in [job for job in self._waiting if job.tp in partitions]:
                self._waiting.pop(job).cancel()
            self._queues.drop(partitions)
            self._room.look_at_all()

    @property
    def _partitions(self) -> frozenset[TopicPartition]:
        """All that are worked on. One that has begun again has records in work, and no progress until others come."""
        return self._queues.partitions | self._commits.progress.keys()

    def _running_of(self, partitions: frozenset[TopicPartition]) -> dict[Job, asyncio.Task[None]]:
        return {job: task for job, task in self._running.items() if job.tp in partitions}

    def _cancel(self, partitions: frozenset[TopicPartition]) -> dict[Job, asyncio.Task[None]]:
        """Cancel the handlers of these partitions that have not ended.

        Returns those to wait for, also what was cancelled before. `_ended` is still called for one that has just ended.
        """
        running = self._running_of(partitions)
        for job, task in running.items():
            if not task.done():
                self._cancelled[job] = task
                del self._running[job]
                task.cancel()
        return running | {job: task for job, task in self._cancelled.items() if job.tp in partitions}

    async def _until_cancelled(self, running: dict[Job, asyncio.Task[None]]) -> None:
        if not running:
            return
        _, ignoring = await asyncio.wait(running.values(), timeout=self._drain_s)
        for job, task in running.items():
            if task in ignoring and self._cancelled.pop(job, None) is not None:
                text = "has cancelled the handler of %s, which continues nevertheless"
                self._log.warning(text, job.place, extra=place_fields([job.tp]))


def _is_cancelled() -> bool:
    """Whether the current task was cancelled, as all are at the end of an event loop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _size(record: ConsumedRecord) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    return size if not record.headers else size + sum(len(name) + len(value or b"") for name, value in record.headers)
