"""How a fake broker answers Metadata, CreateTopics and DeleteTopics."""

from __future__ import annotations

import re
import uuid
from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from aioprod.messages.create_topics import CreatableTopic, CreatableTopicResult
from aioprod.messages.delete_topics import DeletableTopicResult, DeleteTopicState
from aioprod.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.state.log import FakePartition
from aioprod.testing.fake.state.shared import Call
from aioprod.types import TopicPartition
from aioprod.wire.schema import ZERO_UUID

__all__ = ["create_topics", "delete_topics", "metadata"]

NAME: Final = re.compile("[A-Za-z0-9._-]{1,249}")


def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """The brokers that are up, and what is known of topics."""
    state = call.state
    if request.topics is None or (call.version == 0 and not request.topics):
        names = [name for name in sorted(state.topics) if not call.denied("DESCRIBE", "topic", name)]
    else:
        names = [topic.name for topic in request.topics if topic.name is not None]
    rows = [_topic(call, name, request.allow_auto_topic_creation) for name in names]
    rows += [_topic_by_id(call, topic.topic_id) for topic in request.topics or () if topic.name is None]
    brokers = [MetadataResponseBroker(node_id=key, host=host, port=port) for key, (host, port) in state.nodes.items()]
    return MetadataResponse(
        brokers=tuple(brokers),
        cluster_id=state.cluster_id,
        controller_id=min(state.nodes, default=-1),
        topics=tuple(rows),
    )


def _topic(call: Call, name: str, may_create: bool) -> MetadataResponseTopic:
    error = call.fault.error_for(TopicPartition(name, -1))
    if error != ErrorCode.NONE:
        return MetadataResponseTopic(error_code=error, name=name)
    topic = call.state.topics.get(name)
    if denied := call.denied("DESCRIBE", "topic", name):
        return MetadataResponseTopic(error_code=denied, name=name)
    if not NAME.fullmatch(name):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name)
    if topic is None:
        if not (call.state.auto_create and may_create):
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        if denied := _may_not_create(call, name):
            return MetadataResponseTopic(error_code=denied, name=name)
        # As a real broker does: the answer that creates the topic does not know it yet.
        call.state.create_topic(name, call.state.default_partitions)
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
    rows = [_partition(call, index, partition) for index, partition in enumerate(topic.partitions)]
    return MetadataResponseTopic(name=name, topic_id=topic.id, partitions=tuple(rows))


def _topic_by_id(call: Call, topic_id: uuid.UUID) -> MetadataResponseTopic:
    topic = call.state.topics.find("", topic_id, by_id=True)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if denied := call.denied("DESCRIBE", "topic", topic.name):
        return MetadataResponseTopic(error_code=denied, name=None, topic_id=topic_id)
    return _topic(call, topic.name, may_create=False)


def _may_not_create(call: Call, name: str) -> ErrorCode:
    return call.denied("CREATE", "cluster", CLUSTER) and call.denied("CREATE", "topic", name)


def _partition(call: Call, index: int, partition: FakePartition) -> MetadataResponsePartition:
    nodes = call.state.nodes
    leader = partition.leader if partition.leader in nodes else None
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader is None else ErrorCode.NONE,
        partition_index=index,
        leader_id=-1 if leader is None else leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=tuple(nodes),
        isr_nodes=tuple(nodes),
    )


def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics, or only look whether that could be done."""
    results = [_created(call, wanted, validate_only=request.validate_only) for wanted in request.topics]
    return CreateTopicsResponse(topics=tuple(results))


def _created(call: Call, wanted: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    state = call.state
    refusal = _refusal(call, wanted)
    if refusal is not None:
        error, text = refusal
        return CreatableTopicResult(name=wanted.name, error_code=error, error_message=text, configs=())
    count = wanted.num_partitions if wanted.num_partitions > 0 else state.default_partitions
    config = {row.name: row.value for row in wanted.configs if row.value is not None}
    topic_id = ZERO_UUID if validate_only else state.create_topic(wanted.name, count, config).id
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=count,
        replication_factor=len(state.nodes) if wanted.replication_factor == -1 else wanted.replication_factor,
        configs=(),
    )


def _refusal(call: Call, wanted: CreatableTopic) -> tuple[ErrorCode, str] | None:
    """Why a topic is not created, in the controller's words."""
    if error := call.fault.error_for(TopicPartition(wanted.name, -1)):
        return error, error.name
    if denied := _may_not_create(call, wanted.name):
        return denied, "Authorization failed."
    if not NAME.fullmatch(wanted.name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: '{wanted.name}'"
    if wanted.name in call.state.topics:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists."
    if wanted.num_partitions == 0 or wanted.num_partitions < -1:
        text = "Number of partitions was set to an invalid non-positive value."
        return ErrorCode.INVALID_PARTITIONS, text
    if wanted.replication_factor > len(call.state.nodes):
        text = f"Unable to replicate the partition {wanted.replication_factor} time(s)."
        return ErrorCode.INVALID_REPLICATION_FACTOR, text
    return None


def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics, by name or by id."""
    wanted = request.topics or tuple(DeleteTopicState(name=name) for name in request.topic_names)
    results = []
    for one in wanted:
        topic = call.state.topics.find(one.name or "", one.topic_id, by_id=one.name is None)
        name = topic.name if topic else one.name or ""
        if denied := call.fault.error_for(TopicPartition(name, -1)) or call.denied("DELETE", "topic", name):
            results.append(DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=denied))
        elif topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one.name is not None else ErrorCode.UNKNOWN_TOPIC_ID
            results.append(DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=unknown))
        else:
            del call.state.topics[topic.name]
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
    return DeleteTopicsResponse(responses=tuple(results))
