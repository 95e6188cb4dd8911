"""Commits in the background of what the application has finished."""

from __future__ import annotations

import asyncio

from aioprod._words import counted
from aioprod.calls.session import Session
from aioprod.errors import AioprodError
from aioprod.group.assignment import AssignmentState
from aioprod.group.member_log import MemberLog, place_fields
from aioprod.group.membership import Assign, Membership, Revoke

__all__ = ["BackgroundCommits"]


class BackgroundCommits:
    """Commits what the application has finished, at intervals and before partitions are revoked.

    It stands between the runner and the `AssignmentState`, whose steps it passes on.
    """

    def __init__(
        self,
        log: MemberLog,
        session: Session,
        membership: Membership,
        assignment: AssignmentState,
        interval_s: float,
    ) -> None:
        self._log = log
        self._session = session
        self._membership = membership
        self._assignment = assignment
        self._interval_s = interval_s

    async def run(self) -> None:
        """Commit at intervals, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            if not self._membership.is_rebalancing:
                await self._commit()

    async def prepare(self, step: Assign) -> None:
        """Fetch the start offsets; may be cancelled."""
        await self._assignment.prepare(step)

    async def assign(self, step: Assign) -> None:
        """Start reading, and run the callback; called between two polls."""
        await self._assignment.assign(step)

    async def revoke(self, step: Revoke) -> None:
        """Commit what is finished, unless the partitions are lost; then stop reading, and run the callback."""
        if step.partitions and not step.is_lost:
            await self._commit()
        await self._assignment.revoke(step)

    async def _commit(self) -> None:
        metadata = self._membership.metadata
        offsets = self._assignment.uncommitted(only_finished=True)
        if not offsets or metadata.generation_id < 0 or self._assignment.work is not None:
            return
        try:
            deadline = self._session.clock() + self._session.timeout_s
            await self._assignment.commit(metadata, offsets, deadline, is_regular=True)
        except AioprodError as error:
            self._log.warning(
                "could not commit %s in the background: %s",
                counted(len(offsets), "offset"),
                error,
                extra=place_fields(offsets),
            )
