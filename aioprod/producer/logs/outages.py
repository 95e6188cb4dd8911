"""Tells the log of brokers that are lost while records wait for them, and of their return: one line each."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from aioprod.core.accumulator import Accumulator
from aioprod.errors import AioprodError
from aioprod.net.client import Client
from aioprod.net.link import BrokerLink
from aioprod.producer.explain import counted, seconds_of

__all__ = ["QUIET_S", "Outages"]

log = logging.getLogger("aioprod.producer")

QUIET_S: Final = 10.0
"""How long a broker that comes and goes is not warned of again: then it is, if it is still away or lost once more."""

LOOK_S_MIN: Final = 5.0
LOOK_SHARE: Final = 0.25
LOOK_S_MAX: Final = 300.0
"""How often a broker is looked for that nobody needs, as others lead its partitions: after a quarter of the time for
which it has been away."""

LOOKED_AT: Final = 2000
"""Among how many of the oldest batches those for a broker are looked for: less than a millisecond's work."""


@dataclass(slots=True)
class Absence:
    """A broker that is away, in monotonic seconds; `was_there`: it was connected before.

    It is looked for if it was `told` of; `is_missing`: the metadata did not name it then.
    """

    since: float
    was_there: bool
    told: bool = False
    is_missing: bool = False
    look_at: float = math.inf


class Outages:
    """Hears of each connection that is made, lost or can't be made, and writes to the logger `aioprod.producer`.

    What nobody waits for is no outage: a connection that was idle, or that another one takes the place of.
    """

    def __init__(self, client: Client, accumulator: Accumulator, clock: Callable[[], float]) -> None:
        self._client = client
        self._accumulator = accumulator
        self._clock = clock
        self._reached: set[int] = set()
        self._away: dict[int, Absence] = {}
        self._quiet_until: dict[int, float] = {}

    def lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        """A connection is gone or could not be made; `error` is None when this client has closed it."""
        node_id, now = link.node.id, self._clock()
        absence = self._away.get(node_id)
        if error is None or (absence is not None and absence.told):
            return
        waiting = self._waiting_for(node_id)
        if not waiting:
            return
        if absence is None:
            absence = self._away[node_id] = Absence(now, node_id in self._reached)
        if now < self._quiet_until.get(node_id, -math.inf):
            return
        absence.told = True
        absence.look_at = now + LOOK_S_MIN
        self._quiet_until[node_id] = now + QUIET_S
        log.warning(
            "%s %s, and %s %s for it: %s",
            link.peer,
            "is lost" if absence.was_there else "can't be reached",
            counted(waiting, "record"),
            "waits" if waiting == 1 else "wait",
            error.message.rstrip("."),
        )

    def poll(self, now: float) -> float:
        """Look for the brokers that are away, if it is time to; when to look again."""
        for node_id, absence in self._away.items():
            if now >= absence.look_at:
                absence.look_at = now + min(LOOK_S_MAX, max(LOOK_S_MIN, LOOK_SHARE * (now - absence.since)))
                absence.is_missing = not self._connect(node_id, now)
                if absence.is_missing:
                    self._client.metadata.request_update(now)
        return min((absence.look_at for absence in self._away.values()), default=math.inf)

    def named_anew(self) -> None:
        """The metadata tells which brokers there are: connect to those that were missing."""
        for node_id, absence in self._away.items():
            if absence.is_missing:
                absence.is_missing = not self._connect(node_id, self._clock())

    def _connect(self, node_id: int, now: float) -> bool:
        """Try to connect to a broker; False for one that the metadata does not name."""
        link = self._client.link(node_id)
        if link is None or link.retired:
            return False
        link.ensure(now)
        return True

    def back(self, link: BrokerLink) -> None:
        """A broker is connected."""
        self._reached.add(link.node.id)
        absence = self._away.pop(link.node.id, None)
        if absence is not None and absence.told:
            what = "is back" if absence.was_there else "is connected"
            log.info("%s %s after %s", link.peer, what, seconds_of(self._clock() - absence.since))

    def _waiting_for(self, node_id: int) -> int:
        """How many records wait for a broker, among the oldest; or for any broker, where none is connected."""
        accumulator = self._accumulator
        waiting = 0
        for batch in islice(accumulator.incomplete, LOOKED_AT):
            queue = batch.partition.queue
            if queue is not None and queue.node_id == node_id:
                waiting += batch.records
        if waiting or not accumulator.parked_topics or self._client.is_connected:
            return waiting
        return sum(len(topic.parked or ()) for topic in accumulator.parked_topics.values())
