"""From which broker each partition is read: the leader, or for a time the follower that it has named (KIP-392).

    LEADER --names a follower--> FOLLOWER --its time is up, an error, another leader or epoch, it is gone--> LEADER

A leader names a follower in the client's rack (`client.rack`), where the brokers have a `replica.selector.class`. No
I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from aioprod.calls.leaders import PendingPartition
from aioprod.cluster import Cluster, Node
from aioprod.types import TopicPartition

__all__ = ["ReadReplicas"]


class _Named(NamedTuple):
    """A follower, until when the partition is read from it, and id and epoch of the leader that has named it."""

    node_id: int
    until: float
    leader: tuple[int, int]


class ReadReplicas:
    """The brokers that partitions are read from; a follower for `kept_s` seconds, as in Java `metadata.max.age.ms`."""

    def __init__(self, cluster: Callable[[], Cluster], kept_s: float) -> None:
        self.version = 0
        """Grows when a partition is to be read from another broker, for another reason than new metadata."""
        self._cluster = cluster
        self._kept_s = kept_s
        self._named: dict[TopicPartition, _Named] = {}

    def node(self, cluster: Cluster, tp: TopicPartition) -> Node | None:
        """The broker to read the partition from, None while it has no leader."""
        leader = cluster.leader_for(tp)
        named = self._named.get(tp)
        if named is None:
            return leader
        follower = _online_replica(cluster, tp, named.node_id)
        if leader is not None and follower is not None and named.leader == (leader.id, cluster.leader_epoch(tp)):
            return follower
        del self._named[tp]
        return leader

    def is_leader(self, tp: TopicPartition, node_id: int) -> bool:
        """Whether the broker leads the partition: other brokers answer with the ends of their own copies of its log."""
        leader = self._cluster().leader_for(tp)
        return leader is not None and leader.id == node_id

    def name(self, tp: TopicPartition, node_id: int, by: int, now: float) -> bool:
        """Broker `by` names a follower to read from; False if that can't be done.

        A leader that names a follower which the metadata does not have, or a broker that names one without being the
        leader, would otherwise get the same request again at once, without end.
        """
        cluster = self._cluster()
        if node_id == by or not self.is_leader(tp, by) or _online_replica(cluster, tp, node_id) is None:
            return False
        self._named[tp] = _Named(node_id, now + self._kept_s, (by, cluster.leader_epoch(tp)))
        self.version += 1
        return True

    def clear(self, tp: TopicPartition) -> None:
        """Read the partition from its leader again."""
        if self._named.pop(tp, None) is not None:
            self.version += 1

    def lost(self, node_id: int) -> None:
        """A broker will not answer: what was read from it is read from leaders again."""
        for tp in [tp for tp, named in self._named.items() if named.node_id == node_id]:
            self.clear(tp)

    def answered(self, partitions: Iterable[PendingPartition], now: float) -> None:
        """A request for these partitions was answered: those whose time is up are read from their leaders again.

        Only then, as no answer of the follower is on its way, which would be fetched twice.
        """
        if not self._named:
            return
        for one in partitions:
            named = self._named.get(one.tp)
            if named is not None and named.until <= now:
                self.clear(one.tp)


def _online_replica(cluster: Cluster, tp: TopicPartition, node_id: int) -> Node | None:
    """The broker, if it is up and has a replica of the partition."""
    info, node = cluster.partition(tp), cluster.node(node_id)
    is_online = info is not None and node in info.replicas and node not in info.offline_replicas
    return node if is_online else None
