"""What brokers told about one topic, and which of two answers counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from aioprod.cluster.model import Cluster, Node, PartitionInfo
from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError
from aioprod.messages.metadata import MetadataResponse, MetadataResponseTopic
from aioprod.types import TopicPartition

__all__ = ["FINAL_ERRORS", "KnownPartition", "KnownTopic", "NodeTable", "refusal_of", "snapshot_of"]

FINAL_ERRORS: Final = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Answers that asking again does not change, and that leave no partitions to send to."""


class KnownPartition(NamedTuple):
    """A partition as it was told. `leader_id` stays while that broker is not alive, for it may come back alone."""

    leader_id: int
    leader_epoch: int
    info: PartitionInfo


class NodeTable:
    """The brokers that are alive, by id; partitions with the same replicas share one tuple of nodes."""

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self.nodes = nodes
        self._tuples: dict[tuple[int, ...], tuple[Node, ...]] = {}

    def tuple_of(self, ids: Iterable[int]) -> tuple[Node, ...]:
        """The nodes of these ids; one that is not alive is there by its id alone."""
        key = tuple(ids)
        known = self._tuples.get(key)
        if known is None:
            known = tuple(self.nodes.get(node_id) or Node(node_id, "", -1) for node_id in key)
            self._tuples[key] = known
        return known


def _partitions_of(topic: MetadataResponseTopic, table: NodeTable, *, epochs: bool) -> dict[int, KnownPartition]:
    """The partitions of an answer by index, in order; none if it has holes, for then it is not whole yet.

    `epochs` is False where the leader epochs of the answer can't be trusted (KAFKA-9212: before Metadata v9).
    """
    name = topic.name or ""
    told: dict[int, KnownPartition] = {}
    for row in sorted(topic.partitions, key=lambda row: row.partition_index):
        if row.partition_index != len(told):
            return {}
        info = PartitionInfo(
            name,
            row.partition_index,
            table.nodes.get(row.leader_id),
            table.tuple_of(row.replica_nodes),
            table.tuple_of(row.isr_nodes),
            table.tuple_of(row.offline_replicas),
        )
        told[row.partition_index] = KnownPartition(row.leader_id, row.leader_epoch if epochs else -1, info)
    return told


def _newer_of(known: Mapping[int, KnownPartition], told: Mapping[int, KnownPartition]) -> dict[int, KnownPartition]:
    """`told`, but what is `known` where its leader epoch is newer: a broker may lag behind the others (KIP-320)."""
    newer = dict(told)
    for index, old in known.items():
        new = told.get(index)
        if new is not None and 0 <= new.leader_epoch < old.leader_epoch:
            newer[index] = old
    return newer


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


@dataclass(slots=True)
class KnownTopic:
    """A topic that somebody wants, and what the brokers said of it. Times are monotonic seconds.

    It is asked for at `ask_at`. `is_settled`: the last answer leaves nothing to ask; `unsettled` counts the answers in
    a row that did. `unknown_since` is None while the last answer told its partitions. `told_at` is the time of the last
    answer, whatever it said.
    """

    last_used: float
    unknown_since: float | None
    ask_at: float = math.inf
    is_settled: bool = False
    unsettled: int = 0
    unknown_attempts: int = 0
    attempts: int = 0
    told_at: float = -math.inf
    error: ErrorCode | int = ErrorCode.NONE
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: dict[int, KnownPartition] = field(default_factory=dict)

    def rebind(self, table: NodeTable) -> bool:
        """Look at the same partitions with other live brokers; whether that changed them."""
        partitions = _rebound(self.partitions, table)
        changed = partitions != self.partitions
        self.partitions = partitions
        return changed

    def take(self, answer: MetadataResponseTopic, table: NodeTable, *, epochs: bool, now: float) -> bool:
        """Take over an answer; whether the topic was created again. `epochs`: its leader epochs can be trusted."""
        self.told_at = now
        self.error = ErrorCode.of(answer.error_code)
        was_gone = self.unknown_attempts > 0
        self.unknown_attempts = self.unknown_attempts + 1 if self.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else 0
        if self.unknown_since is None:
            self.unknown_since = now
        if self.error in FINAL_ERRORS:
            self.is_settled = True
            self.partitions = {}
        if self.error != ErrorCode.NONE:
            return False
        told = _partitions_of(answer, table, epochs=epochs)
        if not told:
            return False
        old_id, new_id = self.topic_id, answer.topic_id if answer.topic_id.int else None
        newest = _newer_of(self.partitions, told)
        # Without ids this is how a topic looks that was deleted and created again.
        is_anew = was_gone and new_id is None and newest != told
        if (new_id is None or new_id == old_id) and not is_anew:
            told = newest
        if new_id is not None and new_id == old_id:
            # A topic only grows: an answer with fewer partitions comes from a broker that lags behind.
            told = {**self.partitions, **told}
        self.topic_id = new_id or old_id
        self.is_internal = answer.is_internal
        self.partitions = told
        self.unknown_since = None
        self.attempts = 0
        self.is_settled = all(known.info.leader is not None for known in told.values())
        return is_anew or (old_id is not None and new_id is not None and new_id != old_id)


def snapshot_of(
    topics: Mapping[str, KnownTopic], nodes: Mapping[int, Node], cluster_id: str | None, controller_id: int
) -> Cluster:
    """A snapshot with these topics alone, in this order."""
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


def refusal_of(response: MetadataResponse) -> AioprodError | None:
    """Why the answer as a whole is of no use."""
    code = ErrorCode.of(response.error_code)
    if code != ErrorCode.NONE:
        return BrokerError(f"A broker answered Metadata with {ErrorCode.said(code)}.", code=code)
    if not response.brokers:
        return ProtocolError("A broker described the cluster without naming a single broker: it may still be starting.")
    return None
