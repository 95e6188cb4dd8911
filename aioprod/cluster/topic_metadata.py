"""The metadata of one topic, and how a response is merged into it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from aioprod.cluster.lower_epochs import LowerEpochs
from aioprod.cluster.model import Cluster, Node, PartitionInfo
from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError
from aioprod.messages.metadata import MetadataResponse, MetadataResponseTopic
from aioprod.types import TopicPartition

__all__ = [
    "FINAL_ERRORS",
    "KnownPartition",
    "KnownTopic",
    "NodeTable",
    "partitions_of",
    "response_error",
    "snapshot_of",
]

FINAL_ERRORS: Final = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Errors that a retry does not change, and that leave no partitions to send to."""

_ADVERTISED: Final = "Check the brokers' advertised.listeners."


class KnownPartition(NamedTuple):
    """A partition as the brokers described it."""

    leader_id: int
    """It stays while that broker is down, which may come back."""
    leader_epoch: int
    info: PartitionInfo


class NodeTable:
    """The brokers that are alive, by id; partitions with the same replicas share one tuple of nodes."""

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self.nodes = nodes
        self._tuples: dict[tuple[int, ...], tuple[Node, ...]] = {}

    def tuple_of(self, ids: Iterable[int]) -> tuple[Node, ...]:
        """The nodes of these ids; a broker that is down has its id only."""
        key = tuple(ids)
        known = self._tuples.get(key)
        if known is None:
            known = tuple(self.nodes.get(node_id) or Node(node_id, "", -1) for node_id in key)
            self._tuples[key] = known
        return known


def partitions_of(topic: MetadataResponseTopic, table: NodeTable, *, epochs: bool) -> dict[int, KnownPartition]:
    """The partitions of a response by index, in order. None of them if an index is missing: the broker does not know
    all yet.

    `epochs` is False where the leader epochs of the response can't be trusted (KAFKA-9212: before Metadata v9).
    """
    name = topic.name or ""
    partitions: dict[int, KnownPartition] = {}
    for row in sorted(topic.partitions, key=lambda row: row.partition_index):
        if row.partition_index != len(partitions):
            return {}
        info = PartitionInfo(
            name,
            row.partition_index,
            table.nodes.get(row.leader_id),
            table.tuple_of(row.replica_nodes),
            table.tuple_of(row.isr_nodes),
            table.tuple_of(row.offline_replicas),
        )
        partitions[row.partition_index] = KnownPartition(row.leader_id, row.leader_epoch if epochs else -1, info)
    return partitions


def _rebound(known: Mapping[int, KnownPartition], table: NodeTable) -> dict[int, KnownPartition]:
    """The same partitions over another set of live brokers."""
    return {
        index: KnownPartition(
            old.leader_id,
            old.leader_epoch,
            PartitionInfo(
                old.info.topic,
                index,
                table.nodes.get(old.leader_id),
                table.tuple_of([node.id for node in old.info.replicas]),
                table.tuple_of([node.id for node in old.info.in_sync_replicas]),
                table.tuple_of([node.id for node in old.info.offline_replicas]),
            ),
        )
        for index, old in known.items()
    }


class KnownTopic:
    """The metadata of a tracked topic. Times are monotonic seconds."""

    __slots__ = (
        "answered_at",
        "attempts",
        "due_at",
        "error",
        "incomplete_count",
        "is_complete",
        "is_internal",
        "last_used",
        "lower_epochs",
        "partitions",
        "topic_id",
        "unknown_attempts",
        "unknown_since",
    )

    def __init__(self, last_used: float, unknown_since: float | None) -> None:
        self.last_used = last_used
        self.unknown_since = unknown_since
        """None while the last response had the topic's partitions."""
        self.due_at = math.inf
        """When the topic is requested next."""
        self.is_complete = False
        """The last response was final, or named a leader for every partition."""
        self.incomplete_count = 0
        """How many responses in a row were not complete."""
        self.unknown_attempts = 0
        self.attempts = 0
        self.answered_at = -math.inf
        """When the last response with this topic came, with or without an error."""
        self.error: ErrorCode | int = ErrorCode.NONE
        self.topic_id: UUID | None = None
        self.is_internal = False
        self.partitions: dict[int, KnownPartition] = {}
        self.lower_epochs = LowerEpochs()

    def rebind(self, table: NodeTable) -> bool:
        """Rebuild the partitions with the live brokers; return whether that changed them."""
        partitions = _rebound(self.partitions, table)
        changed = partitions != self.partitions
        self.partitions = partitions
        return changed

    def _newer_of(self, new: Mapping[int, KnownPartition], now: float) -> dict[int, KnownPartition]:
        """The partitions of `new`, but the known one where that has a newer leader epoch: a broker may lag behind
        (KIP-320).
        """
        newer = dict(new)
        for index, old in self.partitions.items():
            partition = new.get(index)
            if partition is None or partition.leader_epoch < 0:
                continue
            if partition.leader_epoch >= old.leader_epoch:
                self.lower_epochs.forget(index)
            elif not self.lower_epochs.is_believed(index, partition.leader_epoch, now):
                newer[index] = old
        return newer

    def apply(self, row: MetadataResponseTopic, table: NodeTable, *, epochs: bool, now: float) -> bool:
        """Apply a response; return whether the topic was recreated. `epochs`: its leader epochs can be trusted."""
        self.answered_at = now
        self.error = ErrorCode.of(row.error_code)
        was_gone = self.unknown_attempts > 0
        self.unknown_attempts = self.unknown_attempts + 1 if self.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else 0
        if self.unknown_since is None:
            self.unknown_since = now
        if self.error in FINAL_ERRORS:
            self.is_complete = True
            self.partitions = {}
        if self.error != ErrorCode.NONE:
            return False
        new = partitions_of(row, table, epochs=epochs)
        if not new:
            return False
        old_id, new_id = self.topic_id, row.topic_id if row.topic_id.int else None
        newest = self._newer_of(new, now)
        # Without topic ids this is the only sign that a topic was deleted and created again.
        is_recreated = was_gone and new_id is None and newest != new
        if (new_id is None or new_id == old_id) and not is_recreated:
            new = newest
        if new_id is not None and new_id == old_id:
            # Partitions are never removed: a response with fewer comes from a broker that lags behind.
            new = {**self.partitions, **new}
        self.topic_id = new_id or old_id
        self.is_internal = row.is_internal
        self.partitions = new
        self.unknown_since = None
        self.attempts = 0
        self.is_complete = all(known.info.leader is not None for known in new.values())
        return is_recreated or (old_id is not None and new_id is not None and new_id != old_id)


def snapshot_of(
    topics: Mapping[str, KnownTopic], nodes: Mapping[int, Node], cluster_id: str | None, controller_id: int
) -> Cluster:
    """A snapshot of these topics only, in this order."""
    infos: list[PartitionInfo] = []
    epochs: dict[TopicPartition, int] = {}
    for name, topic in topics.items():
        for index, known in topic.partitions.items():
            infos.append(known.info)
            if known.leader_epoch >= 0:
                epochs[TopicPartition(name, index)] = known.leader_epoch
    return Cluster(
        nodes.values(),
        infos,
        cluster_id=cluster_id,
        controller=nodes.get(controller_id),
        unauthorized_topics=_names_with(topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        invalid_topics=_names_with(topics, ErrorCode.INVALID_TOPIC_EXCEPTION),
        internal_topics=[name for name, topic in topics.items() if topic.is_internal],
        topic_ids={name: topic.topic_id for name, topic in topics.items() if topic.topic_id is not None},
        leader_epochs=epochs,
    )


def _names_with(topics: Mapping[str, KnownTopic], error: ErrorCode) -> list[str]:
    return [name for name, topic in topics.items() if topic.error == error]


def response_error(response: MetadataResponse, unusable: Mapping[int, str]) -> AioprodError | None:
    """Why the whole response is invalid, None if it is valid."""
    code = ErrorCode.of(response.error_code)
    if code != ErrorCode.NONE:
        return BrokerError(f"A broker answered Metadata with {ErrorCode.name_of(code)}.", code=code)
    if not response.brokers:
        return ProtocolError("A broker described the cluster without naming a single broker: it may still be starting.")
    if all(row.node_id in unusable for row in response.brokers):
        fault = next(iter(unusable.values()))
        return ProtocolError(f"No broker of the metadata has an address that can be used: {fault}.", hint=_ADVERTISED)
    return None
