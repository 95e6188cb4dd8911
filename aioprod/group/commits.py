"""The commits that the application calls for: of positions, and of offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aioprod.calls.session import Session
from aioprod.errors import BrokerError, ErrorCode, RequestTimedOutError, UsageError
from aioprod.group.assignment import AssignmentState
from aioprod.group.background import BackgroundTask
from aioprod.group.membership import Membership
from aioprod.group.poll_timer import PollTimer
from aioprod.group.runner import Runner
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["Commits"]

_LEAVE_OUT: Final = "Leave commit() out: a record is finished when its handler has returned."


class Commits:
    """Commits as the member that owns the partitions, and waits for the end of a rebalance."""

    def __init__(
        self,
        group_id: str,
        session: Session,
        membership: Membership,
        runner: Runner,
        assignment: AssignmentState,
        background: BackgroundTask,
        poll_timer: PollTimer,
    ) -> None:
        self._group_id = group_id
        self._session = session
        self._membership = membership
        self._runner = runner
        self._assignment = assignment
        self._background = background
        self._poll_timer = poll_timer

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, timeout_s: float) -> None:
        """Commit these offsets, or the positions; raises what `Member.commit` raises.

        While a rebalance callback runs, and so also while the member is closed, the positions of records that are not
        finished are not committed.
        """
        if (work := self._assignment.work) is not None:
            if offsets is not None:
                raise UsageError("work() runs, and commits what its handlers have finished.", hint=_LEAVE_OUT)
            await work.commit()
            return
        membership, partitions = self._membership, self._assignment.partitions
        to_commit = offsets
        if to_commit is None:
            to_commit = self._assignment.uncommitted(only_finished=self._background.gate.has_callback)
        owned = partitions.intersection(to_commit)
        topic_ids = self._assignment.topic_ids(to_commit)
        deadline = self._session.clock() + timeout_s
        while to_commit:
            while membership.is_rebalancing and membership.metadata.generation_id >= 0:
                await self._wait_for_rebalance(deadline)
            metadata = membership.metadata
            if metadata.generation_id < 0 or not owned <= self._assignment.partitions:
                raise self._not_owner(owned - self._assignment.partitions) from self._poll_timer.cause
            try:
                await self._assignment.commit(metadata, to_commit, deadline, topic_ids=topic_ids)
                return
            except BrokerError as error:
                is_outdated = error.code == ErrorCode.STALE_MEMBER_EPOCH and metadata != membership.metadata
                is_retriable = error.code == ErrorCode.REBALANCE_IN_PROGRESS or is_outdated
                if not is_retriable or self._session.clock() >= deadline:
                    raise
            await asyncio.sleep(self._session.backoff_s(0))

    async def _wait_for_rebalance(self, deadline: float) -> None:
        left_s = deadline - self._session.clock()
        if left_s <= 0.0:
            raise RequestTimedOutError(f"The rebalance of group {self._group_id!r} did not end in time to commit.")
        if self._background.failure is not None:
            self._background.raise_error()
        await self._runner.wait_for_progress(left_s)

    def _not_owner(self, revoked: frozenset[TopicPartition]) -> BrokerError:
        some = f", which does not own {min(revoked)} any more" if revoked else ""
        return BrokerError(
            f"Nothing was committed: this consumer is not a member of group {self._group_id!r} now{some}.",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
            hint="The new owner of the partitions reads again what was read since the last commit: undo what was done "
            "since then if it counts twice, and continue to read.",
        )
