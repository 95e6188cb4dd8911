"""The fetch session with one broker: what the broker remembers of our requests, so that they need not repeat it
(KIP-227).

    FULL --answered with a session id--> INCREMENTAL --lost, or rejected by the broker--> FULL

A full request names every partition, or the first thousand of them, and requests a session. An incremental one names
those that are new or have another offset, leader epoch or topic id, and those to forget; its response has the
partitions with records, with an error, or with another end of the log. Without a session (id 0 in the response) each
request is full. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from aioprod.cluster import Cluster
from aioprod.errors import ErrorCode
from aioprod.reader.position import Position
from aioprod.types import TopicPartition
from aioprod.wire.schema import ZERO_UUID

__all__ = ["NO_SESSION_EPOCH", "FetchSession", "Plan"]

_FULL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

_NEW_MAX: Final = 1000
"""How many partitions one request adds to a session: some milliseconds' work here, and again with the response."""
NO_SESSION_EPOCH: Final = -1
"""The epoch of a full request without a session."""

_REJECTED: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class Plan(NamedTuple):
    """What the next request says: the session, the partitions that it names, and those that it forgets."""

    session_id: int
    epoch: int
    named: Sequence[Position]
    forgotten: Sequence[tuple[TopicPartition, UUID]]
    """Partitions with their topic ids."""
    is_complete: bool = True
    """No request adds more partitions after it. If one does, this request should not wait for records."""


@dataclass(slots=True)
class _Sent:
    """What the broker knows of a partition."""

    position: Position
    offset: int
    leader_epoch: int
    topic_id: UUID


class FetchSession:
    """One broker's session."""

    def __init__(self) -> None:
        self.id = 0
        """0 where there is no session."""
        self.epoch = _FULL_EPOCH
        """Counts the requests in the session."""
        self.is_complete = True
        """The last request named all partitions, so that the broker waits for records."""
        self._sent: dict[TopicPartition, _Sent] = {}
        self._names: dict[UUID, str] = {}
        self._is_full = True
        self._is_denied = False
        self._uses_ids = True

    def plan(self, positions: Sequence[Position], cluster: Cluster) -> Plan:
        """What to request for these positions, which are all that are to be fetched from the broker now."""
        uses_ids = all(one.topic_id is not None for one in positions)
        if uses_ids != self._uses_ids:
            # Names and ids are not mixed: the versions of the requests differ.
            self._uses_ids = uses_ids
            self.lost()
        is_complete = True
        self._is_full = self.epoch == _FULL_EPOCH
        if self._is_full:
            self._sent.clear()
            self._names.clear()
        named: list[Position] = []
        forgotten: list[tuple[TopicPartition, UUID]] = []
        sent, epoch_of = self._sent, cluster.leader_epoch
        for one in positions:
            known = sent.get(one.tp)
            topic_id = one.topic_id or ZERO_UUID
            leader_epoch = epoch_of(one.tp)
            if known is None:
                if len(named) >= _NEW_MAX and not self._is_denied:
                    is_complete = self._is_full = False
                    continue
                sent[one.tp] = _Sent(one, one.offset, leader_epoch, topic_id)
                self._names[topic_id] = one.tp.topic
                named.append(one)
                continue
            known.position = one
            if known.offset == one.offset and known.leader_epoch == leader_epoch and known.topic_id == topic_id:
                continue
            if known.topic_id != topic_id:
                forgotten.append((one.tp, known.topic_id))
                self._names[topic_id] = one.tp.topic
            known.offset, known.leader_epoch, known.topic_id = one.offset, leader_epoch, topic_id
            named.append(one)
        if not is_complete or len(sent) > len(positions):
            forgotten += self._forget(positions)
        self.is_complete = is_complete
        return Plan(self.id, self.epoch, named, forgotten, is_complete)

    def _forget(self, positions: Iterable[Position]) -> list[tuple[TopicPartition, UUID]]:
        kept = {one.tp for one in positions}
        gone = [tp for tp in self._sent if tp not in kept]
        return [(tp, self._sent.pop(tp).topic_id) for tp in gone]

    def accept(self, code: ErrorCode | int, session_id: int) -> bool:
        """Take the response to the planned request; False if the broker rejected the session: then nothing was read."""
        if code in _REJECTED:
            self.lost()
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = 0
            return False
        if code != ErrorCode.NONE:
            self.lost()
        elif session_id == 0:
            self.id, self.epoch = 0, _FULL_EPOCH
            self._is_denied = True
        elif self.epoch == _FULL_EPOCH:
            self.id, self.epoch = session_id, 1
            self._is_denied = False
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return True

    def lost(self) -> None:
        """There is no response, so that it is not known what the broker knows: the next request is full.

        It names the old session, which the broker then closes.
        """
        self.epoch = _FULL_EPOCH

    @property
    def is_partial(self) -> bool:
        """Whether the response leaves out partitions: those with nothing new, or that were not named yet."""
        return not self._is_full

    def position(self, topic: str, topic_id: UUID, partition: int) -> Position | None:
        """The position of a row in a response, which has the name or the id of the topic."""
        known = self._sent.get(TopicPartition(topic or self._names.get(topic_id, ""), partition))
        return None if known is None else known.position
