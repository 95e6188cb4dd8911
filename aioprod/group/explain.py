"""Explains in sentences what a member of a group waits for: its coordinator, its assignment, topics, leaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aioprod._words import counted
from aioprod.calls.broker_errors import named
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.leaders import PendingPartition
from aioprod.calls.session import Session
from aioprod.cluster.topic_errors import topic_error
from aioprod.errors import AioprodError
from aioprod.group.assignment import AssignmentState
from aioprod.group.fetcher import Fetcher
from aioprod.group.membership import Membership
from aioprod.group.poll_timer import PollTimer
from aioprod.net.link import LinkState
from aioprod.types import TopicPartition

__all__ = ["PATIENCE_S", "PATIENCE_WITH_OTHERS_S", "Explainer", "WaitCause"]

PATIENCE_S: Final = 5.0
"""The time without progress after which a cause is logged."""
PATIENCE_WITH_OTHERS_S: Final = 30.0
"""The time without progress after which a wait for other members to join is logged."""
_HELD_S: Final = 2.0
"""A coordinator without a response for so long is taken to hold back JoinGroup until all members have joined."""


class WaitCause(NamedTuple):
    """Something that a member waits for."""

    subject: str
    """Identifies the cause."""
    explanation: str
    """Its present state, in a sentence."""
    patience_s: float = PATIENCE_S


class Explainer:
    """Reads the state of a running member's parts and explains what they wait for.

    `session` is the client that talks to the coordinator, `reading` the one that fetches.
    """

    def __init__(
        self,
        membership: Membership,
        coordinator: Coordinator,
        assignment: AssignmentState,
        fetcher: Fetcher,
        session: Session,
        reading: Session,
        fetch_wait_s: float,
        poll_timer: PollTimer,
    ) -> None:
        self._membership = membership
        self._coordinator = coordinator
        self._assignment = assignment
        self._fetcher = fetcher
        self._session = session
        self._reading = reading
        self._fetch_wait_s = fetch_wait_s
        self._poll_timer = poll_timer

    def explain(self, topics: Iterable[str], *, is_polling: bool) -> str:
        """The state of a member that is subscribed to `topics`; `is_polling`: the application waits for a record."""
        owned = counted(len(self._assignment.partitions), "partition")
        head = f"Member of group {self._coordinator.key!r}, which owns {owned}:"
        sentences = [cause.explanation for cause in self.causes(topics, is_polling=is_polling)]
        if not sentences or not sentences[0].startswith(self._state):
            sentences.insert(0, self._state)
        if self._poll_timer.age_s() >= PATIENCE_S:
            sentences.append(self._poll_timer.text)
        return " ".join([head, *sentences])

    def causes(self, topics: Iterable[str], *, is_polling: bool) -> list[WaitCause]:
        """What the member waits for; leaders count only while the application polls: else nothing is fetched."""
        now = self._session.clock()
        found = [*self._group(now), *self._topics(topics, now)]
        return [*found, *self._leaders(now)] if is_polling else found

    @property
    def _state(self) -> str:
        words = self._membership.description
        return f"{words[0].upper()}{words[1:]}."

    def _group(self, now: float) -> Iterator[WaitCause]:
        coordinator = self._coordinator
        error = coordinator.last_error or self._assignment.last_error
        if coordinator.sent_at is not None and now - coordinator.sent_at >= _HELD_S:
            # The error is out of date: the coordinator has the next request, and holds it until all have joined.
            error = None
        if self._membership.is_stable and error is None:
            return
        if error is not None:
            yield WaitCause("its coordinator", f"{self._state} Its coordinator has not answered: {_sentences(error)}")
        elif coordinator.node_id is None:
            why = self._session.client.describe()
            yield WaitCause("its coordinator", f"{self._state} Its coordinator is not known yet: {why}.")
        else:
            text = f"{self._state} Broker {coordinator.node_id} is its coordinator."
            yield WaitCause("its assignment", text, PATIENCE_WITH_OTHERS_S)

    def _topics(self, topics: Iterable[str], now: float) -> Iterator[WaitCause]:
        client = self._session.client
        for topic in sorted(topics):
            if client.metadata.cluster.partition_count(topic):
                continue
            error = topic_error(client.metadata, topic, now, to_write=False)
            why = f"Topic {topic!r} is not described yet: {client.describe()}." if error is None else str(error)
            yield WaitCause(f"topic {topic!r}", why)

    def _leaders(self, now: float) -> Iterator[WaitCause]:
        """One for each cause, however many partitions it concerns."""
        causes: dict[tuple[str, str], list[TopicPartition]] = {}
        for one in self._fetcher.pending:
            if (cause := self._cause(one, now)) is not None:
                causes.setdefault(cause, []).append(one.tp)
        for (subject, why), partitions in causes.items():
            yield WaitCause(subject, f"{named(partitions)} can't be read: {why}")

    def _cause(self, one: PendingPartition, now: float) -> tuple[str, str] | None:
        client = self._reading.client
        cluster = client.metadata.cluster
        leader = cluster.leader_for(one.tp)
        if leader is None:
            return ("partitions without a leader", "no leader.") if cluster.partition_count(one.tp.topic) else None
        link = client.link(leader.id)
        if link is not None and link.state is not LinkState.READY and link.last_error is not None:
            return f"broker {leader.id}", f"their leader, broker {leader.id}, is not reached: {link.describe(now)}."
        if one.last_error is not None:
            return f"broker {leader.id}", _sentences(one.last_error)
        owed_s = now - self._fetcher.sent_at.get(leader.id, now) - self._fetch_wait_s
        if owed_s >= PATIENCE_S:
            return f"broker {leader.id}", f"their leader, broker {leader.id}, has owed an answer for {owed_s:.0f} s."
        return None


def _sentences(error: AioprodError) -> str:
    """The message of an error with its hint, and one stop at its end."""
    return f"{str(error).rstrip('.')}."
