"""The topics and logs behind fake brokers, and what a broker answers to each request; no I/O."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aioprod.errors import CorruptRecordError, ErrorCode
from aioprod.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from aioprod.messages.create_topics import CreatableTopicResult
from aioprod.messages.delete_topics import DeletableTopicResult
from aioprod.messages.fetch import FetchableTopicResponse, FetchPartition, PartitionData
from aioprod.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from aioprod.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from aioprod.messages.produce import LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse
from aioprod.records.parser import ParsedBatch, ParsedRecord, parse_batches
from aioprod.types import TopicPartition

NO_ID = uuid.UUID(int=0)

ErrorFor = Callable[[TopicPartition], ErrorCode]
"""The error code that a test wants for a partition; NONE leaves it to the broker."""


@dataclass
class FakePartition:
    """One partition: its leader (None for none), and its log as batches with their final offsets."""

    leader: int | None
    leader_epoch: int = 0
    next_offset: int = 0
    log: list[bytes] = field(default_factory=list)

    def append(self, batch: ParsedBatch, stored: bytes) -> int:
        """Store a batch; returns its base offset. The checksum does not cover the offset."""
        base = self.next_offset
        self.log.append(base.to_bytes(8, "big") + stored[8:])
        self.next_offset += batch.last_offset_delta + 1
        return base

    def batches(self) -> Iterator[ParsedBatch]:
        """What was stored, in order."""
        for stored in self.log:
            yield from parse_batches(stored)

    def records(self) -> list[ParsedRecord]:
        """All records of the log."""
        return [record for batch in self.batches() for record in batch.records()]


@dataclass
class FakeTopic:
    """A topic; a test may change its partitions as it likes."""

    name: str
    id: uuid.UUID
    partitions: list[FakePartition]

    def records(self) -> list[ParsedRecord]:
        """All records, partition by partition."""
        return [record for partition in self.partitions for record in partition.records()]


class FakeState:
    """What all brokers of one fake cluster share. `nodes` maps the ids of those alive to (host, port)."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[str, int]] = {}
        self.topics: dict[str, FakeTopic] = {}
        self.cluster_id = "fake-cluster"
        self.auto_create = True
        self.default_partitions = 1
        self.message_max_bytes = 1_048_588
        self.leader_hints = True

    # -- for tests ---------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1) -> FakeTopic:
        """Create a topic whose leaders are the nodes in turn."""
        ids = sorted(self.nodes)
        topic = FakeTopic(name, uuid.uuid4(), [FakePartition(ids[index % len(ids)]) for index in range(partitions)])
        self.topics[name] = topic
        return topic

    def move_leader(self, tp: TopicPartition, leader: int | None) -> None:
        """Elect another leader, or none."""
        partition = self.topics[tp.topic].partitions[tp.partition]
        partition.leader = leader
        partition.leader_epoch += 1

    # -- what a broker answers ---------------------------------------------------------------------------------------

    def answer(self, node_id: int, version: int, request: Any, error_for: ErrorFor, *, apply: bool) -> Any:
        """The response of broker `node_id`. `apply`: batches are stored even where `error_for` wants an error."""
        match request:
            case MetadataRequest():
                return self._metadata(version, request, error_for)
            case ProduceRequest():
                return self._produce(node_id, version, request, error_for, apply)
            case ListOffsetsRequest():
                return self._list_offsets(node_id, request, error_for)
            case FetchRequest():
                return self._fetch(node_id, version, request, error_for)
            case CreateTopicsRequest():
                return self._create_topics(request)
            case DeleteTopicsRequest():
                return self._delete_topics(version, request)
        raise AssertionError(f"The fake broker does not answer {request!r}.")

    def _topic_by_id(self, topic_id: uuid.UUID) -> FakeTopic | None:
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def _find(self, name: str, topic_id: uuid.UUID, by_id: bool) -> FakeTopic | None:
        return self._topic_by_id(topic_id) if by_id else self.topics.get(name)

    def _partition(
        self, node_id: int, topic: FakeTopic | None, index: int, unknown: ErrorCode
    ) -> tuple[FakePartition | None, ErrorCode]:
        """The partition if `node_id` leads it, else the error to answer."""
        if topic is None or not 0 <= index < len(topic.partitions):
            return None, unknown
        partition = topic.partitions[index]
        if partition.leader != node_id:
            return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition, ErrorCode.NONE

    def _metadata(self, version: int, request: MetadataRequest, error_for: ErrorFor) -> MetadataResponse:
        if request.topics is None or (version == 0 and not request.topics):
            names = sorted(self.topics)
        else:
            names = [topic.name for topic in request.topics if topic.name is not None]
        rows = [self._describe(name, request.allow_auto_topic_creation, error_for) for name in names]
        brokers = [
            MetadataResponseBroker(node_id=key, host=host, port=port) for key, (host, port) in self.nodes.items()
        ]
        return MetadataResponse(
            brokers=tuple(brokers),
            cluster_id=self.cluster_id,
            controller_id=min(self.nodes, default=-1),
            topics=tuple(rows),
        )

    def _describe(self, name: str, may_create: bool, error_for: ErrorFor) -> MetadataResponseTopic:
        error = error_for(TopicPartition(name, -1))
        if error != ErrorCode.NONE:
            return MetadataResponseTopic(error_code=error, name=name)
        topic = self.topics.get(name)
        if topic is None:
            if not (self.auto_create and may_create):
                return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
            # As a real broker does: the answer that creates the topic can't name its leaders yet.
            self.create_topic(name, self.default_partitions)
            return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=name)
        rows = []
        for index, partition in enumerate(topic.partitions):
            leader = partition.leader if partition.leader in self.nodes else None
            rows.append(
                MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader is None else ErrorCode.NONE,
                    partition_index=index,
                    leader_id=-1 if leader is None else leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=tuple(self.nodes),
                    isr_nodes=tuple(self.nodes),
                )
            )
        return MetadataResponseTopic(name=name, topic_id=topic.id, partitions=tuple(rows))

    def _produce(
        self, node_id: int, version: int, request: ProduceRequest, error_for: ErrorFor, apply: bool
    ) -> ProduceResponse:
        by_id = version >= 13
        topics = []
        hinted: set[int] = set()
        for sent in request.topic_data:
            topic = self._find(sent.name, sent.topic_id, by_id)
            rows = []
            for data in sent.partition_data:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                partition, error = self._partition(node_id, topic, data.index, unknown)
                wanted = error_for(TopicPartition(topic.name if topic else sent.name, data.index))
                base = -1
                if partition is not None and (wanted == ErrorCode.NONE or apply):
                    error, base = self._append(partition, bytes(data.records or b""))
                if wanted != ErrorCode.NONE:
                    error, base = wanted, -1
                hint = LeaderIdAndEpoch()
                if error == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= 10 and self.leader_hints and topic:
                    known = topic.partitions[data.index]
                    if known.leader in self.nodes and known.leader != node_id:
                        hint = LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
                        hinted.add(known.leader)
                rows.append(
                    PartitionProduceResponse(
                        index=data.index, error_code=error, base_offset=base, log_start_offset=0, current_leader=hint
                    )
                )
            topics.append(TopicProduceResponse(name=sent.name, topic_id=sent.topic_id, partition_responses=tuple(rows)))
        endpoints = [NodeEndpoint(node_id=key, host=self.nodes[key][0], port=self.nodes[key][1]) for key in hinted]
        return ProduceResponse(responses=tuple(topics), node_endpoints=tuple(endpoints))

    def _append(self, partition: FakePartition, data: bytes) -> tuple[ErrorCode, int]:
        """Store what one produce brought; error and base offset."""
        if len(data) > self.message_max_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        try:
            (batch,) = parse_batches(data)
            assert len(list(batch.records())) == batch.count == batch.last_offset_delta + 1
        except (CorruptRecordError, ValueError, AssertionError):
            return ErrorCode.CORRUPT_MESSAGE, -1
        return ErrorCode.NONE, partition.append(batch, data)

    def _list_offsets(self, node_id: int, request: ListOffsetsRequest, error_for: ErrorFor) -> ListOffsetsResponse:
        topics = []
        for asked in request.topics:
            rows = []
            for row in asked.partitions:
                partition, error = self._partition(
                    node_id, self.topics.get(asked.name), row.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                error = error_for(TopicPartition(asked.name, row.partition_index)) or error
                timestamp, offset = -1, -1
                if partition is not None and error == ErrorCode.NONE:
                    timestamp, offset = _offset_at(partition, row.timestamp)
                rows.append(
                    ListOffsetsPartitionResponse(
                        partition_index=row.partition_index, error_code=error, timestamp=timestamp, offset=offset
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=asked.name, partitions=tuple(rows)))
        return ListOffsetsResponse(topics=tuple(topics))

    def _fetch(self, node_id: int, version: int, request: FetchRequest, error_for: ErrorFor) -> FetchResponse:
        by_id = version >= 13
        topics = []
        for asked in request.topics:
            topic = self._find(asked.topic, asked.topic_id, by_id)
            rows = []
            for row in asked.partitions:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                partition, error = self._partition(node_id, topic, row.partition, unknown)
                error = error_for(TopicPartition(topic.name if topic else asked.topic, row.partition)) or error
                rows.append(_fetched(row, partition if error == ErrorCode.NONE else None, error))
            topics.append(FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=tuple(rows)))
        return FetchResponse(responses=tuple(topics))

    def _create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        results = []
        for wanted in request.topics:
            if wanted.name in self.topics:
                text = f"Topic '{wanted.name}' already exists."
                results.append(
                    CreatableTopicResult(
                        name=wanted.name, error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message=text, configs=()
                    )
                )
                continue
            count = wanted.num_partitions if wanted.num_partitions > 0 else self.default_partitions
            topic_id = NO_ID if request.validate_only else self.create_topic(wanted.name, count).id
            results.append(
                CreatableTopicResult(
                    name=wanted.name,
                    topic_id=topic_id,
                    error_message=None,
                    num_partitions=count,
                    replication_factor=1,
                    configs=(),
                )
            )
        return CreateTopicsResponse(topics=tuple(results))

    def _delete_topics(self, version: int, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        names = [topic.name for topic in request.topics] if version >= 6 else list(request.topic_names)
        results = []
        for name in names:
            gone = self.topics.pop(name or "", None)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone is None else ErrorCode.NONE
            results.append(DeletableTopicResult(name=name, topic_id=gone.id if gone else NO_ID, error_code=error))
        return DeleteTopicsResponse(responses=tuple(results))


def _offset_at(partition: FakePartition, timestamp: int) -> tuple[int, int]:
    if timestamp == -1:
        return -1, partition.next_offset
    if timestamp == -2:
        return -1, 0
    for record in partition.records():
        if record.timestamp >= timestamp:
            return record.timestamp, record.offset
    return -1, -1


def _fetched(row: FetchPartition, partition: FakePartition | None, error: ErrorCode) -> PartitionData:
    if partition is None:
        return PartitionData(partition_index=row.partition, error_code=error, high_watermark=-1, records=b"")
    end = partition.next_offset
    found = b""
    if not 0 <= row.fetch_offset <= end:
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    for batch, stored in zip(partition.batches(), partition.log, strict=True):
        if batch.next_offset > row.fetch_offset and not (found and len(found) + len(stored) > row.partition_max_bytes):
            found += stored
        elif found:
            break
    return PartitionData(
        partition_index=row.partition,
        error_code=error,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=None,
        records=found,
    )
