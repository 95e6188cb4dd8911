"""Brokers that are lost while records wait for them: reconnects to them, and logs their loss and their return."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import Final

from aioprod._logger import Logger
from aioprod._words import counted, seconds_of
from aioprod.errors import AioprodError
from aioprod.net.client import Client
from aioprod.net.link import BrokerLink
from aioprod.producer.batching.accumulator import Accumulator

__all__ = ["QUIET_S", "LostBrokers"]

_logger = Logger("aioprod.producer")

QUIET_S: Final = 10.0
"""How long no second warning about a broker is logged, in seconds; then one is, if it is still away or lost again."""

_LOOK_S_MIN: Final = 5.0
_LOOK_SHARE: Final = 0.25
_LOOK_S_MAX: Final = 300.0
"""When to reconnect to a broker that is not needed, as others lead its partitions: after a quarter of its absence."""

_LOOKED_AT: Final = 2000
"""Batches for a broker are looked for among this many of the oldest ones: less than a millisecond's work."""


class Absence:
    """A broker that is away; times are in monotonic seconds."""

    __slots__ = ("is_missing", "is_reported", "look_at", "since", "was_there")

    def __init__(self, since: float, was_there: bool) -> None:
        self.since = since
        self.was_there = was_there
        """Whether it was connected before."""
        self.is_reported = False
        """Whether its loss was logged."""
        self.look_at = math.inf
        """When to try to reconnect, once its loss was logged."""
        self.is_missing = False
        """Whether the metadata did not name it then."""


class LostBrokers:
    """Takes each connection that is made, lost or can't be made; logs a line for each loss and each return.

    A connection that no record waits for does not count: one that was idle, or that another one replaces.
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
        if error is None or (absence is not None and absence.is_reported):
            return
        waiting = self._waiting_for(node_id)
        if not waiting:
            return
        if absence is None:
            absence = self._away[node_id] = Absence(now, node_id in self._reached)
        if now < self._quiet_until.get(node_id, -math.inf):
            return
        absence.is_reported = True
        absence.look_at = now + _LOOK_S_MIN
        self._quiet_until[node_id] = now + QUIET_S
        _logger.warning(
            "%s %s, and %s %s for it: %s",
            link.peer,
            "is lost" if absence.was_there else "can't be reached",
            counted(waiting, "record"),
            "waits" if waiting == 1 else "wait",
            error.message.rstrip("."),
        )

    def poll(self, now: float) -> float:
        """Reconnect to the brokers that are away, if it is time to; returns when to call this again."""
        for node_id, absence in self._away.items():
            if now >= absence.look_at:
                absence.look_at = now + min(_LOOK_S_MAX, max(_LOOK_S_MIN, _LOOK_SHARE * (now - absence.since)))
                absence.is_missing = not self._connect(node_id, now)
                if absence.is_missing:
                    self._client.metadata.request_update(now)
        return min((absence.look_at for absence in self._away.values()), default=math.inf)

    def metadata_changed(self) -> None:
        """Connect to the brokers that the metadata did not name before."""
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
        if absence is not None and absence.is_reported:
            what = "is back" if absence.was_there else "is connected"
            _logger.info("%s %s after %s", link.peer, what, seconds_of(self._clock() - absence.since))

    def _waiting_for(self, node_id: int) -> int:
        """How many records wait for a broker, among the oldest; or for any broker, where none is connected."""
        accumulator = self._accumulator
        waiting = 0
        for batch in islice(accumulator.incomplete, _LOOKED_AT):
            queue = batch.partition.queue
            if queue is not None and queue.node_id == node_id:
                waiting += batch.records
        if waiting or not accumulator.parked_topics or self._client.is_connected:
            return waiting
        return sum(len(topic.parked or ()) for topic in accumulator.parked_topics.values())
