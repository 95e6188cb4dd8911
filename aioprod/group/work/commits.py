"""The commits of a member's work: one at a time, of the first unfinished offset with the marks of what is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager

from aioprod._words import counted
from aioprod.calls.session import Session
from aioprod.errors import AioprodError
from aioprod.group.assignment import AssignmentState
from aioprod.group.member_log import MemberLog
from aioprod.group.membership import Membership
from aioprod.group.work.progress import Progress
from aioprod.group.work.queues import Job
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["WorkCommits"]


class WorkCommits:
    """Commits what the handlers have finished, partition by partition."""

    def __init__(
        self,
        log: MemberLog,
        assignment: AssignmentState,
        membership: Membership,
        session: Session,
        interval_s: float,
    ) -> None:
        self.progress: dict[TopicPartition, Progress] = {}
        """Where the work on each partition stands."""
        self.interval_s = interval_s
        """The time between two commits."""
        self._log = log
        self._assignment = assignment
        self._membership = membership
        self._session = session
        self._unknown: set[TopicPartition] = set()
        """Partitions of which a transaction may have committed offsets: another commit could take them back."""
        self._cut_off: set[TopicPartition] = set()
        """Partitions whose last commit was not acknowledged: brokers may still get it."""
        self._in_transaction: Progress | None = None
        """Of the partition whose offsets the transaction that is under way commits."""
        self._one_commit = asyncio.Lock()
        self._one_transaction = asyncio.Lock()

    async def commit(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit what is finished, of some partitions or of all; raises what `commit_offsets` raises."""
        async with self._one_commit:
            await self._commit(partitions)

    async def _commit(self, partitions: Collection[TopicPartition] | None) -> None:
        for tp, position in self._assignment.positions.items():
            if tp in self.progress:
                self.progress[tp].pass_by(position)
        offsets = {
            tp: offset
            for tp, progress in self.progress.items()
            if (partitions is None or tp in partitions) and tp not in self._unknown
            if progress is not self._in_transaction
            if (offset := progress.to_commit()) != self._assignment.last_commit(tp)
        }
        metadata = self._membership.metadata
        if offsets and metadata.generation_id >= 0:
            deadline = self._session.clock() + self._session.timeout_s
            self._cut_off.update(offsets)
            await self._assignment.commit(metadata, offsets, deadline, is_regular=True)
            self._cut_off.difference_update(offsets)

    async def commit_or_log(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """As `commit`; an error is logged."""
        try:
            await self.commit(partitions)
        except AioprodError as error:
            self._log.warning(
                "could not commit what its handlers have finished, of %s: %s",
                counted(len(self.progress if partitions is None else partitions), "partition"),
                error,
            )

    @asynccontextmanager
    async def transaction_of(self, job: Job) -> AsyncIterator[dict[TopicPartition, OffsetAndMetadata]]:
        """For the transaction that finishes a record: what it has to commit. Its partition has no other one meanwhile.

        When it is not known whether the transaction is committed, the partition is not committed any more, neither by
        `commit` nor by a later transaction: raises an error for that, whose `may_be_stored` is of the unknown one.
        """
        async with self._one_transaction:
            if self._has(job) and job.tp in self._unknown:
                raise _after_unknown(job)
            async with self._one_commit:
                await self._repeat_cut_off(job.tp)
                self._in_transaction = job.progress
            offsets = {job.tp: job.progress.to_commit(job.record.offset)} if self._has(job) else {}
            try:
                yield offsets
            except BaseException as error:
                if self._has(job) and (not isinstance(error, AioprodError) or error.may_be_stored):
                    self._unknown.add(job.tp)
                raise
            finally:
                self._in_transaction = None
            job.progress.finish(job.record.offset)
            if self._has(job):
                self._assignment.has_committed(offsets)

    async def _repeat_cut_off(self, tp: TopicPartition) -> None:
        """Have the last commit acknowledged: if it came after the offsets of a transaction, it would take them back."""
        if tp not in self._cut_off:
            return
        try:
            await self._commit([tp])
        except AioprodError as error:
            if not error.may_be_stored:
                raise
            text = f"The last commit of {tp.topic}-{tp.partition} was cut off, and can't be repeated: {error}"
            raise AioprodError(text) from error

    def _has(self, job: Job) -> bool:
        """Whether the member still works on what the record belongs to."""
        return self.progress.get(job.tp) is job.progress

    def begin_again(self, tp: TopicPartition) -> None:
        """The partition has another log now: what is finished of the one before is not committed any more."""
        self.progress.pop(tp, None)
        self._unknown.discard(tp)
        self._cut_off.discard(tp)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The work on these partitions has ended: what is not finished is read again."""
        some = [tp for tp in partitions if tp in self.progress]
        busy = {tp for tp in some if self.progress[tp] is self._in_transaction}
        self._assignment.worked_on({tp: self.progress[tp] for tp in some}, self._unknown.intersection(some) | busy)
        for tp in some:
            del self.progress[tp]
            self._unknown.discard(tp)
            self._cut_off.discard(tp)


def _after_unknown(job: Job) -> AioprodError:
    error = AioprodError(
        f"The dead letter of {job.place} was not sent: the end of the transaction of an earlier one of this partition "
        f"is not known, and this one could take back what that has committed."
    )
    error.may_be_stored = True
    return error
