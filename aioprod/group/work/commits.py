"""The commits of a member's work: one at a time, of the first unfinished offset with the marks of what is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

from aioprod._words import counted
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, BrokerError, ErrorCode
from aioprod.group.assignment import AssignmentState
from aioprod.group.member_log import MemberLog, place_fields
from aioprod.group.membership import Membership
from aioprod.group.work.mark_room import MarkRoom
from aioprod.group.work.marks import length_of
from aioprod.group.work.progress import Progress
from aioprod.group.work.queues import Job
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["LetterTransaction", "MarksTooLongError", "NoRoomYetError", "WorkCommits"]


class MarksTooLongError(AioprodError):
    """The transaction of a letter was aborted, as brokers do not take so many marks: the next one has fewer."""


class NoRoomYetError(AioprodError):
    """The marks of a letter do not fit into a commit until records before it are finished."""


class LetterTransaction:
    """The transaction that finishes a record by its letter."""

    def __init__(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], topic_ids: Mapping[TopicPartition, UUID]
    ) -> None:
        self.offsets = offsets
        """What it has to commit."""
        self.topic_ids = topic_ids
        """Of the topics that were read."""
        self._is_complete = False

    def complete(self) -> None:
        """It has letter and offsets, and is committed next. One that ends before is aborted."""
        self._is_complete = True

    def may_be_committed(self, error: BaseException) -> bool:
        """Whether it may be committed though it has ended with this error."""
        return self._is_complete and (not isinstance(error, AioprodError) or error.may_be_stored)


class WorkCommits:
    """Commits what the handlers have finished, partition by partition; for all calls of `work` of a member."""

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
        self.room = MarkRoom()
        """The room for marks in a commit."""
        self._log = log
        self._assignment = assignment
        self._membership = membership
        self._session = session
        self._unknown: set[TopicPartition] = set()
        """Partitions of which a transaction may have committed offsets: another commit could take them back."""
        self._stuck: set[TopicPartition] = set()
        """Partitions that are not committed as marks do not fit which no commit may leave out; that is logged."""
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
        while offsets := self._to_commit(partitions):
            metadata = self._membership.metadata
            if metadata.generation_id < 0:
                return
            deadline = self._session.clock() + self._session.timeout_s
            try:
                await self._assignment.commit(metadata, offsets, deadline, is_regular=True)
            except BrokerError as error:
                if not self._cut_marks(error, offsets):
                    raise
            else:
                return

    def _to_commit(self, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            tp: offset
            for tp, progress in self.progress.items()
            if (partitions is None or tp in partitions) and tp not in self._unknown
            if progress is not self._in_transaction
            if (offset := self._offset_of(tp, progress)) is not None
            if tp in self._assignment.cut_off or offset != self._assignment.last_commit(tp)
        }

    def _offset_of(self, tp: TopicPartition, progress: Progress) -> OffsetAndMetadata | None:
        """What there is to commit; None, which is logged once, while marks do not fit that must not be left out."""
        offset = progress.to_commit()
        if offset is not None:
            self._stuck.discard(tp)
        elif tp not in self._stuck:
            self._stuck.add(tp)
            self._log.warning(
                "can't commit %s-%d until earlier records are finished: the marks of dead letters, or of what its "
                "former owner has finished, don't fit any more, as offset.metadata.max.bytes was lowered. "
                "A dead letter that waits for another one waits for ever: set it to 4096, and restart this consumer.",
                *tp,
                extra=place_fields([tp]),
            )
        return offset

    def _cut_marks(self, error: BaseException, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
        """Cut later marks if brokers have rejected these as too long; returns whether they have.

        The error doesn't say how long marks may be: half as long, but as long as the brokers have taken before.
        """
        rejected = max((length_of(given.metadata) for given in offsets.values()), default=0)
        if not rejected or not _is_too_long(error):
            return False
        if not self.room.is_limited:
            self._log.warning(
                "can't say in a commit all that its handlers have finished behind the offset: the brokers take less "
                "metadata than by default (offset.metadata.max.bytes is below 4096). From now on commits say less, and "
                "after a crash more records are handled again: set it to 4096, and restart this consumer, to change "
                "that."
            )
        last = (self._assignment.last_commit(tp) for tp in self.progress)
        taken = (length_of(one.metadata) for one in last if one is not None)
        self.room.limit(max([rejected // 2, *(length for length in taken if length < rejected)]))
        return True

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
    async def transaction_of(self, job: Job) -> AsyncIterator[LetterTransaction]:
        """The transaction that finishes a record. Its partition has no other commit meanwhile.

        When it is not known whether the transaction is committed, the partition is not committed any more, neither by
        `commit` nor by a later transaction: raises an error for that, whose `may_be_stored` is of the unknown one.
        """
        async with self._one_transaction:
            if self._has(job) and job.tp in self._unknown:
                raise _after_unknown(job)
            async with self._one_commit:
                await self._repeat_cut_off(job)
                offsets = self._finishing(job)
                transaction = LetterTransaction(offsets, self._assignment.topic_ids(offsets))
                self._in_transaction = job.progress
            try:
                yield transaction
            except BaseException as error:
                if self._has(job) and transaction.may_be_committed(error):
                    self._unknown.add(job.tp)
                elif self._cut_marks(error, transaction.offsets):
                    raise MarksTooLongError(str(error)) from error
                raise
            finally:
                self._in_transaction = None
            job.progress.finish_with_letter(job.record.offset)
            if self._has(job):
                self._assignment.has_committed(transaction.offsets)

    async def _repeat_cut_off(self, job: Job) -> None:
        """Have the last commit acknowledged: if it came after the offsets of a transaction, it would take them back."""
        tp = job.tp
        if tp not in self._assignment.cut_off or not self._has(job):
            return
        text = f"The last commit of {tp.topic}-{tp.partition} was cut off, and can't be repeated"
        try:
            await self._commit([tp])
        except AioprodError as error:
            if not error.may_be_stored:
                raise
            raise AioprodError(f"{text}: {error}") from error
        if tp in self._assignment.cut_off and self._has(job):
            raise AioprodError(f"{text} now.")

    def _finishing(self, job: Job) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the transaction that finishes a record has to commit: nothing if its log was replaced."""
        if not self._has(job):
            return {}
        if (offset := job.progress.to_commit(job.record.offset)) is None:
            raise NoRoomYetError(f"The marks up to {job.place} do not fit into a commit now.")
        return {job.tp: offset}

    def _has(self, job: Job) -> bool:
        """Whether the member still works on what the record belongs to."""
        return self.progress.get(job.tp) is job.progress

    def begin_again(self, tp: TopicPartition) -> None:
        """The partition has another log now: what is finished of the one before is not committed any more."""
        self.progress.pop(tp, None)
        self._unknown.discard(tp)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The work on these partitions has ended: what is not finished is read again."""
        some = [tp for tp in partitions if tp in self.progress]
        busy = {tp for tp in some if self.progress[tp] is self._in_transaction}
        self._assignment.worked_on({tp: self.progress[tp] for tp in some}, self._unknown.intersection(some) | busy)
        for tp in some:
            del self.progress[tp]
            self._unknown.discard(tp)
            self._stuck.discard(tp)


def _is_too_long(error: BaseException | None) -> bool:
    """Whether brokers have rejected metadata; the error of a transaction has that as its cause."""
    while error is not None and not isinstance(error, BrokerError):
        error = error.__cause__
    return error is not None and error.code == ErrorCode.OFFSET_METADATA_TOO_LARGE


def _after_unknown(job: Job) -> AioprodError:
    error = AioprodError(
        f"The dead letter of {job.place} was not sent: the end of the transaction of an earlier one of this partition "
        f"is not known, and this one could take back what that has committed."
    )
    error.may_be_stored = True
    return error
