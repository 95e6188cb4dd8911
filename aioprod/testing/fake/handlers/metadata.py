"""How a fake broker answers Metadata."""

from __future__ import annotations

import uuid

from aioprod.errors import ErrorCode
from aioprod.messages import MetadataRequest, MetadataResponse
from aioprod.messages.metadata import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.handlers.topics import NAME, may_not_create
from aioprod.testing.fake.state.log import FakePartition
from aioprod.types import TopicPartition

__all__ = ["metadata"]


def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Answer the brokers that are up and the requested topics; missing topics are created (`auto_create`)."""
    state = call.state
    if request.topics is None or (call.version == 0 and not request.topics):
        names = [name for name in sorted(state.topics) if not call.denied("DESCRIBE", "topic", name)]
    else:
        names = [topic.name for topic in request.topics if topic.name is not None]
    rows = [_topic(call, name, request.allow_auto_topic_creation) for name in names]
    rows += [_topic_by_id(call, topic.topic_id) for topic in request.topics or () if topic.name is None]
    brokers = [
        MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=state.racks.get(node_id))
        for node_id, (host, port) in state.nodes.items()
    ]
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
        if denied := may_not_create(call, name):
            return MetadataResponseTopic(error_code=denied, name=name)
        # As a real broker does: the response to the request that creates the topic does not have it yet.
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
