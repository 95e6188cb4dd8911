"""Says in sentences why a member of a group does not get on: no coordinator, no topic, no leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aioprod.cluster.topic_errors import topic_error
from aioprod.errors import AioprodError
from aioprod.group.assignment import Holding
from aioprod.group.fetcher import Fetcher
from aioprod.group.membership import Membership
from aioprod.net import Coordinator
from aioprod.net.broker_errors import named
from aioprod.net.link import LinkState
from aioprod.net.session import Session
from aioprod.reader.leaders import Wanted
from aioprod.types import TopicPartition

__all__ = ["PATIENCE_S", "PATIENCE_WITH_OTHERS_S", "Explainer", "Trouble"]

PATIENCE_S: Final = 5.0
"""How long nothing has to move before that is worth telling."""
PATIENCE_WITH_OTHERS_S: Final = 30.0
"""The same while nothing is wrong that the member could know of: others may take their time to join."""
HELD_S: Final = 2.0
"""A coordinator that has a request for so long holds it until the others have come, as it does with JoinGroup."""


class Trouble(NamedTuple):
    """What holds a member up: something that stays the same (`about`), and what is to be said of it now."""

    about: str
    says: str
    patience_s: float = PATIENCE_S


class Explainer:
    """Looks at the parts of a running member and says what they wait for; changes nothing.

    `session` is the client that the group is asked by, `reading` that of the records.
    """

    def __init__(
        self,
        membership: Membership,
        coordinator: Coordinator,
        holding: Holding,
        fetcher: Fetcher,
        session: Session,
        reading: Session,
    ) -> None:
        self._membership = membership
        self._coordinator = coordinator
        self._holding = holding
        self._fetcher = fetcher
        self._session = session
        self._reading = reading

    def explain(self, topics: Iterable[str], *, is_waited_for: bool) -> str:
        """How it stands with a member that reads these `topics`, of which a record `is_waited_for` or not."""
        count = len(self._holding.assignment)
        head = f"Member of group {self._coordinator.key!r}, which owns {count} partition{'' if count == 1 else 's'}:"
        says = [trouble.says for trouble in self.troubles(topics, is_waited_for=is_waited_for)]
        if not says or not says[0].startswith(self._standing):
            says.insert(0, self._standing)
        return " ".join([head, *says])

    def troubles(self, topics: Iterable[str], *, is_waited_for: bool) -> list[Trouble]:
        """What holds it up now; while nobody waits for a record, none is asked for."""
        now = self._session.clock()
        found = [*self._group(now), *self._topics(topics, now)]
        return [*found, *self._leaders(now)] if is_waited_for else found

    @property
    def _standing(self) -> str:
        words = self._membership.standing
        return f"{words[0].upper()}{words[1:]}."

    def _group(self, now: float) -> Iterator[Trouble]:
        coordinator = self._coordinator
        trouble = coordinator.last_error or self._holding.trouble
        if coordinator.sent_at is not None and now - coordinator.sent_at >= HELD_S:
            # Its last answer is old news: the coordinator has the next request, and waits for the others with it.
            trouble = None
        if self._membership.is_settled and trouble is None:
            return
        if trouble is not None:
            yield Trouble("its coordinator", f"{self._standing} Its coordinator has not answered: {_said(trouble)}")
        elif coordinator.node_id is None:
            why = self._session.client.describe()
            yield Trouble("its coordinator", f"{self._standing} Its coordinator is not known yet: {why}.")
        else:
            says = f"{self._standing} Broker {coordinator.node_id} is its coordinator."
            yield Trouble("its share", says, PATIENCE_WITH_OTHERS_S)

    def _topics(self, topics: Iterable[str], now: float) -> Iterator[Trouble]:
        client = self._session.client
        for topic in sorted(topics):
            if client.metadata.cluster.partition_count(topic):
                continue
            refusal = topic_error(client.metadata, topic, now, to_write=False)
            why = f"Topic {topic!r} is not described yet: {client.describe()}." if refusal is None else str(refusal)
            yield Trouble(f"topic {topic!r}", why)

    def _leaders(self, now: float) -> Iterator[Trouble]:
        """One for each cause, however many partitions it concerns."""
        causes: dict[tuple[str, str], list[TopicPartition]] = {}
        for one in self._fetcher.wanted:
            if (cause := self._cause(one, now)) is not None:
                causes.setdefault(cause, []).append(one.tp)
        for (about, why), places in causes.items():
            yield Trouble(about, f"{named(places)} can't be read: {why}")

    def _cause(self, one: Wanted, now: float) -> tuple[str, str] | None:
        client = self._reading.client
        cluster = client.metadata.cluster
        leader = cluster.leader_for(one.tp)
        if leader is None:
            return ("partitions without a leader", "no leader.") if cluster.partition_count(one.tp.topic) else None
        link = client.link(leader.id)
        if link is not None and link.state is not LinkState.READY and link.last_error is not None:
            return f"broker {leader.id}", f"their leader, broker {leader.id}, is not reached: {link.describe(now)}."
        if one.trouble is not None:
            return f"broker {leader.id}", _said(one.trouble)
        return None


def _said(error: AioprodError) -> str:
    """What an error says, with its hint, and one stop at its end."""
    return f"{str(error).rstrip('.')}."
