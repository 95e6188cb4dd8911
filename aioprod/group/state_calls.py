"""The calls of a member that say how it is: health, explanation, metrics, and its place in the group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aioprod.group.health import MemberHealth
from aioprod.group.membership import NotJoined, ReadingMember
from aioprod.group.partition_calls import PartitionCalls
from aioprod.net.settings import client_id_of
from aioprod.types import GroupMetadata

if TYPE_CHECKING:
    from aioprod.calls.session import Session
    from aioprod.group.background import BackgroundTask
    from aioprod.group.config import MemberConfig
    from aioprod.group.meters import MemberMetrics
    from aioprod.group.poll_timer import PollTimer
    from aioprod.metrics import Family

__all__ = ["StateCalls"]


class StateCalls(PartitionCalls):
    """The calls of a member that send no request and change nothing; `Member` derives from it."""

    config: MemberConfig
    group_id: str
    _background: BackgroundTask
    _closed: asyncio.Future[None] | None
    _metrics: MemberMetrics
    _poll_timer: PollTimer
    _session: Session

    def explain(self) -> str:
        """Why no records come, in sentences: its coordinator can't be reached, a topic does not exist, and so on.

        The same is logged when there was no progress for some seconds. Raises UsageError outside of the event loop in
        which the member was started.
        """
        if self._parts is None:
            return f"The member of group {self.group_id!r} is not started."
        if self._background.failure is not None:
            return f"The member of group {self.group_id!r} has failed: {self._background.failure}"
        if self._is_closed:
            return f"The member of group {self.group_id!r} is closed."
        return self._parts.explainer.explain(self._parts.runner.topics, is_polling=self._background.gate.is_polling)

    def health(self) -> MemberHealth:
        """What the probes of a service need: the state, how long ago the application polled, and so on.

        Costs microseconds for each partition. Works in every state of the member, in the thread of its event loop.
        """
        failure, parts = self._background.failure, self._parts
        interval_s = self.config.max_poll_interval_ms / 1000
        if parts is None or self._is_closed or failure is not None:
            state = "failed" if failure is not None else "closed" if self._is_closed else "new"
            return MemberHealth(state, 0, 0.0, None, None, None, interval_s, failure)
        lags, now = self.lag().values(), self._session.clock()
        return MemberHealth(
            "closing" if self._closed is not None else "reading" if parts.membership.is_stable else "joining",
            len(self.assignment),
            self._poll_timer.age_s(),
            _age_s(self._fetcher.log_ends.answered_at, now),
            _age_s(parts.runner.heartbeat_at, now),
            None if None in lags else sum(lag or 0 for lag in lags),
            interval_s,
            None,
        )

    @property
    def _is_closed(self) -> bool:
        return self._closed is not None and self._closed.done()

    def metrics(self) -> dict[str, float]:
        """Counters since the member was created, and current gauges, by name; docs/groups.md has the table."""
        return self._metrics.snapshot()

    def metric_families(self) -> list[Family]:
        """Every metric in base units: what monitoring systems collect; docs/metrics.md lists them."""
        return self._metrics.families()

    @property
    def client_id(self) -> str:
        """The name of this member at the brokers: `client.id`, or that of all that have none."""
        return client_id_of(self._reading.config)

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the member lives in; None before it is started."""
        return self._reading.loop

    @property
    def group_metadata(self) -> GroupMetadata:
        """The current group id, generation and member id, for `producer.send_offsets_to_transaction`.

        Take it after the records that are processed, and before the next poll: when the partitions are assigned to
        another member after that, the coordinator fences this one (KIP-447). It also has the ids of the topics that
        are read: a topic that is created later under the name of one gets none of its offsets (KIP-1319, from 4.4 on).
        The producer raises UsageError for a member that has not joined.
        """
        if self._parts is None:
            return NotJoined(self.group_id)
        known, assignment = self._parts.membership.metadata, self._parts.assignment
        if known.generation_id < 0:
            return NotJoined(*known)
        return ReadingMember.of(known, assignment.topic_ids(assignment.partitions))


def _age_s(at: float | None, now: float) -> float | None:
    return None if at is None else now - at
