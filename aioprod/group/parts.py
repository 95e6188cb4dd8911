"""The parts of a started member, built in the order in which they use each other."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.group.assignment import AssignmentState, Callbacks
from aioprod.group.background import BackgroundTask
from aioprod.group.background_commits import BackgroundCommits
from aioprod.group.classic.membership import ClassicMembership
from aioprod.group.commits import Commits
from aioprod.group.config import MemberConfig
from aioprod.group.explain import Explainer, WaitCause
from aioprod.group.fetcher import Fetcher
from aioprod.group.kip848.membership import ConsumerMembership
from aioprod.group.member_log import MemberLog
from aioprod.group.membership import Membership
from aioprod.group.meters import MemberMetrics
from aioprod.group.milestones import Milestones
from aioprod.group.offset_reset import OffsetReset
from aioprod.group.pattern_subscription import PatternSubscription
from aioprod.group.poll_gate import PollGate
from aioprod.group.poll_timer import PollTimer
from aioprod.group.rebalance_log import RebalanceLog
from aioprod.group.runner import AssignmentHandler, Runner
from aioprod.group.stall_monitor import StallMonitor
from aioprod.group.work.commits import WorkCommits
from aioprod.group.work.letter_sender import LetterSender
from aioprod.group.work.work import Work

if TYPE_CHECKING:
    import re

    from aioprod.group.assignors import Assignor
    from aioprod.group.work.plan import Plan

__all__ = ["Parts", "Subscription"]


class Subscription(NamedTuple):
    """What a member reads, and in which group."""

    group_id: str
    topics: frozenset[str]
    """Their names; empty with a pattern."""
    pattern: re.Pattern[str] | None
    assignors: tuple[Assignor, ...]


class Parts:
    """What a member has from `start()` on. No part refers to the `Member`, so that a dropped one is noticed."""

    def __init__(
        self,
        log: MemberLog,
        subscription: Subscription,
        config: MemberConfig,
        session: Session,
        reading: Session,
        fetcher: Fetcher,
        callbacks: Callbacks,
        background: BackgroundTask,
        poll_timer: PollTimer,
        metrics: MemberMetrics,
    ) -> None:
        group_id, gate = subscription.group_id, background.gate
        coordinator = Coordinator(session.client, "group", group_id)
        self.membership = _membership(subscription, config, session)
        self._milestones = Milestones(log, config, metrics)
        rebalances, reset = RebalanceLog(log, session.clock), OffsetReset(config.auto_offset_reset)
        self.assignment = AssignmentState(fetcher, coordinator, session, callbacks, reset, metrics, rebalances)
        self.explainer = Explainer(
            self.membership,
            coordinator,
            self.assignment,
            fetcher,
            session,
            reading,
            config.fetch_max_wait_ms / 1000,
            poll_timer,
        )
        stall_monitor = StallMonitor(log, _causes_of(self.explainer, gate), session.clock)
        handler: AssignmentHandler = self.assignment
        self._more: list[Callable[[], Coroutine[Any, Any, None]]] = [poll_timer.run]
        """What the background task runs beside the runner."""
        interval_s = config.auto_commit_interval_ms / 1000
        self._work_commits = WorkCommits(log, self.assignment, self.membership, session, interval_s)
        if config.enable_auto_commit:
            handler = commits = BackgroundCommits(log, session, self.membership, self.assignment, interval_s)
            self._more.append(commits.run)
        self.runner = Runner(self.membership, coordinator, session, gate, handler, stall_monitor, subscription.topics)
        self.commits = Commits(group_id, session, self.membership, self.runner, self.assignment, background, poll_timer)
        self.pattern_subscription = PatternSubscription(
            log, session, config, subscription.pattern, self.runner.subscribe
        )
        runner, ends, clock = self.runner, fetcher.log_ends, session.clock
        metrics.last_poll_age_s.observe(poll_timer.age_s)
        metrics.last_fetch_age_s.observe(lambda: None if ends.answered_at is None else clock() - ends.answered_at)
        metrics.last_heartbeat_age_s.observe(
            lambda: None if runner.heartbeat_at is None else clock() - runner.heartbeat_at
        )
        self._background = background
        self._config = config
        self._session = session
        self._fetcher = fetcher
        self._group_id = group_id
        self._log = log

    def new_work(self, plan: Plan) -> Work:
        """A call of `Member.work`."""
        commits, letters = self._work_commits, None
        if plan.dead_letters is not None:
            letters = LetterSender(self._group_id, plan.dead_letters, self.membership, commits, self._log)
        return Work(
            plan,
            self._fetcher,
            self.assignment,
            self.membership,
            self._session,
            self._background,
            commits,
            letters,
            self._config.max_poll_interval_ms / 1000,
            self._log,
        )

    async def run(self) -> None:
        """Keep the member in its group until it has left."""
        self._milestones.connected(self._session.cluster(), self._session.clock())
        try:
            await self._background.run(self.runner, self.pattern_subscription, self._more)
        except asyncio.CancelledError:
            self._milestones.cut_off()
            raise
        self._milestones.ended(self._background.failure, self._session.clock())


def _membership(subscription: Subscription, config: MemberConfig, session: Session) -> Membership:
    group_id, topics, _, assignors = subscription
    if config.group_protocol == "classic":
        return ClassicMembership(group_id, topics, assignors, config, session.backoff_s, session.clock())
    metadata = session.client.metadata
    return ConsumerMembership(
        group_id,
        topics,
        str(uuid.uuid4()),
        config,
        lambda name: metadata.cluster.topic_id(name),
        session.backoff_s,
        session.clock(),
    )


def _causes_of(explainer: Explainer, gate: PollGate) -> Callable[[frozenset[str]], Sequence[WaitCause]]:
    return lambda topics: explainer.causes(topics, is_polling=gate.is_polling)
