"""What users of aiokafka look at behind the producer: `producer.client` and `producer.client.cluster`."""

from __future__ import annotations

from typing import Any

from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.compat.aiokafka.sending import SendingProducer
from aioprod.compat.aiokafka.structs import BrokerMetadata, TopicPartition
from aioprod.compat.aiokafka.translation import kafka_error
from aioprod.errors import AioprodError
from aioprod.messages import MetadataResponse

__all__ = ["ClientView", "ClusterView"]


class ClusterView:
    """The cluster as the producer knows it; with `snapshot`, as it was at that moment."""

    def __init__(self, producer: SendingProducer, snapshot: Cluster | None = None) -> None:
        self._producer = producer
        self._snapshot = snapshot

    @property
    def _cluster(self) -> Cluster:
        return self._producer.cluster if self._snapshot is None else self._snapshot

    def brokers(self) -> set[BrokerMetadata]:
        """The live brokers."""
        return {BrokerMetadata(node.id, node.host, node.port, node.rack) for node in self._cluster.nodes}

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """The broker of that id, None if it is down or unknown."""
        node = self._cluster.node(broker_id)
        return None if node is None else BrokerMetadata(node.id, node.host, node.port, node.rack)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The names of the known topics; a producer knows those that it was used with."""
        internal = self._cluster.internal_topics if exclude_internal_topics else frozenset()
        return set(self._cluster.topics - internal)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The indexes of all partitions, None for an unknown topic."""
        return {info.partition for info in self._cluster.partitions_for_topic(topic)} or None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The indexes of the partitions that have a leader, None for an unknown topic."""
        if not self._cluster.partition_count(topic):
            return None
        return {info.partition for info in self._cluster.available_partitions_for_topic(topic)}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """The id of the leader, -1 if there is none, None for an unknown partition."""
        topic, index = partition
        if not 0 <= index < self._cluster.partition_count(topic):
            return None
        leader = self._cluster.partitions_for_topic(topic)[index].leader
        return -1 if leader is None else leader.id


class ClientView:
    """The part of aiokafka's client that is documented for its users; anything else raises AttributeError."""

    def __init__(self, producer: SendingProducer) -> None:
        self._producer = producer
        self.cluster = ClusterView(producer)

    async def fetch_all_metadata(self) -> ClusterView:
        """All topics and brokers as a broker sees them now: what health checks call."""
        try:
            return ClusterView(self._producer, _snapshot(await self._producer.all_metadata()))
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"AIOKafkaProducer.client of aioprod has no {name!r}: it has cluster and fetch_all_metadata()."
        )


def _snapshot(response: MetadataResponse) -> Cluster:
    nodes = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers}

    def known(ids: tuple[int, ...]) -> tuple[Node, ...]:
        return tuple(nodes.get(node_id, Node(node_id, "", -1)) for node_id in ids)

    partitions = [
        PartitionInfo(
            topic.name,
            row.partition_index,
            nodes.get(row.leader_id),
            known(row.replica_nodes),
            known(row.isr_nodes),
            known(row.offline_replicas),
        )
        for topic in response.topics
        if topic.name is not None
        for row in topic.partitions
    ]
    internal = [topic.name for topic in response.topics if topic.is_internal and topic.name is not None]
    controller = nodes.get(response.controller_id)
    return Cluster(
        nodes.values(), partitions, cluster_id=response.cluster_id, controller=controller, internal_topics=internal
    )
