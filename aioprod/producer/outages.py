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
from aioprod.net.pool import BrokerLink
from aioprod.producer.explain import counted, seconds_of

__all__ = ["QUIET_S", "Outages"]

log = logging.getLogger("aioprod.producer")

QUIET_S: Final = 10.0
"""How long a broker that comes and goes is not warned of again: then it is, if it is still away or lost once more."""

LOOKED_AT: Final = 2000
"""Among how many of the oldest batches those for a broker are looked for: less than a millisecond's work."""


@dataclass(slots=True)
class Absence:
    """A broker that is away, in monotonic seconds; `was_there`: it was connected before."""

    since: float
    was_there: bool
    told: bool = False


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
        self._quiet_until[node_id] = now + QUIET_S
        log.warning(
            "%s %s, and %s %s for it: %s",
            link.peer,
            "is lost" if absence.was_there else "can't be reached",
            counted(waiting, "record"),
            "waits" if waiting == 1 else "wait",
            error.message.rstrip("."),
        )

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
