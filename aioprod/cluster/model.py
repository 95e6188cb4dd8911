"""The cluster as it was at one moment: brokers, topics, partitions and their leaders, never changed in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from aioprod._short_reprs import shown_address
from aioprod.types import TopicPartition

__all__ = ["Cluster", "Node", "PartitionInfo"]


class Node(NamedTuple):
    """A broker and its address. A replica's broker that is down has an empty host and port -1."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`host:port`, an IPv6 host in brackets."""
        return shown_address(self.host, self.port)


class PartitionInfo(NamedTuple):
    """One partition and its replicas."""

    topic: str
    partition: int
    leader: Node | None
    """None while there is no leader, or while it is down."""
    replicas: tuple[Node, ...]
    in_sync_replicas: tuple[Node, ...]
    offline_replicas: tuple[Node, ...] = ()

    def __repr__(self) -> str:
        leader = None if self.leader is None else self.leader.id
        replicas, in_sync, offline = (
            [node.id for node in nodes] for nodes in (self.replicas, self.in_sync_replicas, self.offline_replicas)
        )
        return (
            f"PartitionInfo(topic={self.topic!r}, partition={self.partition}, leader={leader}, replicas={replicas}, "
            f"in_sync_replicas={in_sync}, offline_replicas={offline})"
        )


class _Topic:
    """The indexes of one topic; snapshots that differ in other topics share it."""

    __slots__ = ("available", "by_index", "id", "internal", "leader_epochs", "partitions")

    def __init__(self, partitions: Iterable[PartitionInfo], topic_id: UUID | None, internal: bool) -> None:
        self.partitions = tuple(sorted(partitions, key=attrgetter("partition")))
        self.available = tuple(info for info in self.partitions if info.leader is not None)
        self.by_index = {info.partition: info for info in self.partitions}
        self.id = topic_id
        self.internal = internal
        self.leader_epochs: dict[int, int] = {}


class Cluster:
    """Brokers, topics and partitions at one moment, as `org.apache.kafka.common.Cluster`; immutable.

    Look-ups cost a dictionary access; partitions are ordered by index. For an unknown topic or broker they return an
    empty tuple, None or 0. `leader_epochs` holds the known epochs of partitions (KIP-320).
    """

    nodes: tuple[Node, ...]
    cluster_id: str | None
    controller: Node | None
    unauthorized_topics: frozenset[str]
    invalid_topics: frozenset[str]
    _nodes: dict[int, Node]
    _topics: dict[str, _Topic]

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        partitions: Iterable[PartitionInfo] = (),
        *,
        cluster_id: str | None = None,
        controller: Node | None = None,
        unauthorized_topics: Iterable[str] = (),
        invalid_topics: Iterable[str] = (),
        internal_topics: Iterable[str] = (),
        topic_ids: Mapping[str, UUID] = MappingProxyType({}),
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        internal = frozenset(internal_topics)
        by_topic: dict[str, list[PartitionInfo]] = {}
        for info in partitions:
            by_topic.setdefault(info.topic, []).append(info)
        topics = {name: _Topic(infos, topic_ids.get(name), name in internal) for name, infos in by_topic.items()}
        for (name, partition), epoch in leader_epochs.items():
            if name in topics:
                topics[name].leader_epochs[partition] = epoch
        self._fill(nodes, topics, cluster_id, controller, frozenset(unauthorized_topics), frozenset(invalid_topics))

    def _fill(
        self,
        nodes: Iterable[Node],
        topics: dict[str, _Topic],
        cluster_id: str | None,
        controller: Node | None,
        unauthorized_topics: frozenset[str],
        invalid_topics: frozenset[str],
    ) -> None:
        by_id = {node.id: node for node in nodes}
        vars(self).update(
            _nodes=by_id,
            _topics=topics,
            nodes=tuple(by_id.values()),
            cluster_id=cluster_id,
            controller=controller,
            unauthorized_topics=unauthorized_topics,
            invalid_topics=invalid_topics,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A Cluster never changes, so its {name} can't be set: build another one.")

    def merged(self, newer: Cluster, *, without: Collection[str] = ()) -> Cluster:
        """This snapshot updated with `newer`, less the topics of `without` that `newer` lacks.

        Brokers, cluster id and controller are those of `newer`. The other topics keep their indexes: the cost is that
        of `newer`, not of the whole cluster.
        """
        topics = self._topics.copy()
        for name in without:
            topics.pop(name, None)
        topics.update(newer._topics)
        updated = {*without, *newer._topics, *newer.unauthorized_topics, *newer.invalid_topics}
        both = Cluster.__new__(Cluster)
        both._fill(
            newer.nodes,
            topics,
            newer.cluster_id,
            newer.controller,
            self.unauthorized_topics - updated | newer.unauthorized_topics,
            self.invalid_topics - updated | newer.invalid_topics,
        )
        return both

    @cached_property
    def topics(self) -> frozenset[str]:
        """Names of all topics with known partitions."""
        return frozenset(self._topics)

    @cached_property
    def internal_topics(self) -> frozenset[str]:
        """Names of the topics that belong to Kafka itself, such as `__consumer_offsets`."""
        return frozenset(name for name, topic in self._topics.items() if topic.internal)

    @cached_property
    def topic_ids(self) -> Mapping[str, UUID]:
        """Topic ids (KIP-516), where the brokers have them; a recreated topic has a new one."""
        return MappingProxyType({name: topic.id for name, topic in self._topics.items() if topic.id is not None})

    @cached_property
    def _by_leader(self) -> dict[int, tuple[PartitionInfo, ...]]:
        led: dict[int, list[PartitionInfo]] = {}
        for topic in self._topics.values():
            for info in topic.available:
                assert info.leader is not None
                led.setdefault(info.leader.id, []).append(info)
        return {node_id: tuple(infos) for node_id, infos in led.items()}

    @cached_property
    def racks(self) -> frozenset[str]:
        """The racks in which brokers are."""
        return frozenset(node.rack for node in self.nodes if node.rack)

    def node(self, node_id: int) -> Node | None:
        """The broker of that id, None if it is down or unknown."""
        return self._nodes.get(node_id)

    def partitions_for_node(self, node_id: int) -> tuple[PartitionInfo, ...]:
        """The partitions that the broker leads."""
        return self._by_leader.get(node_id, ())

    def partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """All partitions, with and without a leader."""
        known = self._topics.get(topic)
        return () if known is None else known.partitions

    def available_partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The partitions that have a leader."""
        known = self._topics.get(topic)
        return () if known is None else known.available

    def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic, None if it is not known."""
        known = self._topics.get(topic)
        return None if known is None else known.id

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has, 0 if it is not known."""
        known = self._topics.get(topic)
        return 0 if known is None else len(known.partitions)

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        """One partition, None if it is not known."""
        known = self._topics.get(tp[0])
        return None if known is None else known.by_index.get(tp[1])

    def leader_for(self, tp: TopicPartition) -> Node | None:
        """The broker that leads the partition, None if there is none or the partition is not known."""
        info = self.partition(tp)
        return None if info is None else info.leader

    def leader_epoch(self, tp: TopicPartition) -> int:
        """The leader epoch of a partition, -1 if it is not known."""
        known = self._topics.get(tp[0])
        return -1 if known is None else known.leader_epochs.get(tp[1], -1)

    def __repr__(self) -> str:
        partitions = sum(len(topic.partitions) for topic in self._topics.values())
        nodes = ", ".join(f"{node.id}={node.address}" for node in self.nodes)
        return f"Cluster(id={self.cluster_id!r}, nodes=[{nodes}], topics={len(self._topics)}, partitions={partitions})"
