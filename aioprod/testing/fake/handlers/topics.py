"""How a fake broker answers CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

import re
from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from aioprod.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from aioprod.messages.create_topics import CreatableTopic, CreatableTopicResult
from aioprod.messages.delete_topics import DeletableTopicResult, DeleteTopicState
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.handlers.configs import unknown_setting
from aioprod.testing.fake.state.log import FakePartition
from aioprod.types import TopicPartition
from aioprod.wire.schema import ZERO_UUID

__all__ = ["NAME", "create_partitions", "create_topics", "delete_topics", "may_not_create"]

NAME: Final = re.compile("[A-Za-z0-9._-]{1,249}")
PARTITIONS_MAX: Final = 100_000
"""The most partitions of a topic: one request for more would occupy all brokers for a minute, and their memory."""
_TOO_MANY: Final = "Excessively large number of partitions per request."


def may_not_create(call: Call, name: str) -> ErrorCode:
    """The error for a topic that the caller may not create, NONE if it may: CREATE on the cluster or on the topic."""
    return call.denied("CREATE", "cluster", CLUSTER) and call.denied("CREATE", "topic", name)


def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics, or only check the request (`validate_only`)."""
    results = [_created(call, wanted, validate_only=request.validate_only) for wanted in request.topics]
    return CreateTopicsResponse(topics=tuple(results))


def _created(call: Call, wanted: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    state = call.state
    invalid = _creation_error(call, wanted)
    if invalid is not None:
        error, text = invalid
        return CreatableTopicResult(name=wanted.name, error_code=error, error_message=text, configs=())
    count = wanted.num_partitions if wanted.num_partitions > 0 else state.default_partitions
    replicas = len(state.nodes) if wanted.replication_factor == -1 else wanted.replication_factor
    leaders = None
    if wanted.assignments:
        leaders = [row.broker_ids[0] for row in sorted(wanted.assignments, key=lambda row: row.partition_index)]
        count, replicas = len(leaders), len(wanted.assignments[0].broker_ids)
    config = {row.name: row.value for row in wanted.configs if row.value is not None}
    topic_id = ZERO_UUID if validate_only else state.create_topic(wanted.name, count, config, leaders).id
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=count,
        replication_factor=replicas,
        configs=(),
    )


def _creation_error(call: Call, wanted: CreatableTopic) -> tuple[ErrorCode, str] | None:
    """The error and message of a topic that can't be created, in the controller's words; None if it can."""
    if error := call.fault.error_for(TopicPartition(wanted.name, -1)):
        return error, error.name
    if denied := may_not_create(call, wanted.name):
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
    if max(wanted.num_partitions, len(wanted.assignments)) > PARTITIONS_MAX:
        return ErrorCode.POLICY_VIOLATION, _TOO_MANY
    if wanted.assignments and (invalid := _assignment_error(call, wanted)) is not None:
        return invalid
    said = unknown_setting(row.name for row in wanted.configs)
    return None if said is None else (ErrorCode.INVALID_CONFIG, said)


def _assignment_error(call: Call, wanted: CreatableTopic) -> tuple[ErrorCode, str] | None:
    """The error of replicas that the client has placed itself, None if they can be there."""
    rows = wanted.assignments
    for what, given in (("replication factor", wanted.replication_factor), ("numPartitions", wanted.num_partitions)):
        if given != -1:
            text = f"A manual partition assignment was specified, but {what} was not set to -1."
            return ErrorCode.INVALID_REQUEST, text
    if {row.partition_index for row in rows} != set(range(len(rows))):
        text = "partitions should be a consecutive 0-based integer sequence"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    for row in rows:
        if not row.broker_ids:
            text = "The manual partition assignment includes an empty replica list."
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
        if missing := [node for node in row.broker_ids if node not in call.state.nodes]:
            text = f"The manual partition assignment includes broker {missing[0]}, but no such broker is registered."
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
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
            call.state.delete_topic(topic.name)
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
    return DeleteTopicsResponse(responses=tuple(results))


def create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to topics, or only check the request (`validate_only`)."""
    results = [_grown(call, wanted, validate_only=request.validate_only) for wanted in request.topics]
    return CreatePartitionsResponse(results=tuple(results))


def _grown(call: Call, wanted: CreatePartitionsTopic, *, validate_only: bool) -> CreatePartitionsTopicResult:
    topic = call.state.topics.get(wanted.name)
    error, text = call.denied("ALTER", "topic", wanted.name), None
    if error == ErrorCode.NONE and topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif error == ErrorCode.NONE and topic is not None:
        count = len(topic.partitions)
        if wanted.count > PARTITIONS_MAX:
            error, text = ErrorCode.POLICY_VIOLATION, _TOO_MANY
        elif wanted.count == count:
            error, text = ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s)."
        elif wanted.count < count:
            error = ErrorCode.INVALID_PARTITIONS
            text = (
                f"The topic {wanted.name} currently has {count} partition(s); {wanted.count} would not be an increase."
            )
        elif not validate_only:
            nodes = sorted(call.state.nodes)
            topic.partitions += [FakePartition(nodes[index % len(nodes)]) for index in range(count, wanted.count)]
    return CreatePartitionsTopicResult(name=wanted.name, error_code=error, error_message=text)
