"""How a fake broker answers CreatePartitions and ListGroups."""

from __future__ import annotations

from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from aioprod.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from aioprod.messages.list_groups import ListedGroup
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.state.classic_group import ClassicGroup, State
from aioprod.testing.fake.state.group_offsets import FakeGroup
from aioprod.testing.fake.state.log import FakePartition
from aioprod.testing.fake.state.shared import Call

__all__ = ["create_partitions", "list_groups"]

STATES: Final = {
    State.EMPTY: "Empty",
    State.PREPARING: "PreparingRebalance",
    State.COMPLETING: "CompletingRebalance",
    State.STABLE: "Stable",
}
"""What Kafka calls each state of a classic group."""


def create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Have topics grow, or only look whether they could."""
    results = [_grown(call, wanted, validate_only=request.validate_only) for wanted in request.topics]
    return CreatePartitionsResponse(results=tuple(results))


def _grown(call: Call, wanted: CreatePartitionsTopic, *, validate_only: bool) -> CreatePartitionsTopicResult:
    topic = call.state.topics.get(wanted.name)
    error, said = call.denied("ALTER", "topic", wanted.name), None
    if error == ErrorCode.NONE and topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif error == ErrorCode.NONE and topic is not None:
        count = len(topic.partitions)
        if wanted.count == count:
            error, said = ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s)."
        elif wanted.count < count:
            error = ErrorCode.INVALID_PARTITIONS
            said = (
                f"The topic {wanted.name} currently has {count} partition(s); {wanted.count} would not be an increase."
            )
        elif not validate_only:
            nodes = sorted(call.state.nodes)
            topic.partitions += [FakePartition(nodes[index % len(nodes)]) for index in range(count, wanted.count)]
    return CreatePartitionsTopicResult(name=wanted.name, error_code=error, error_message=said)


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups that this broker coordinates."""
    if call.fault.error != ErrorCode.NONE:
        return ListGroupsResponse(error_code=call.fault.error)
    sees_all = call.denied("DESCRIBE", "cluster", CLUSTER) == ErrorCode.NONE
    rows = [
        _listed(name, group)
        for name, group in sorted(call.state.groups.items())
        if call.state.coordinator(name) == call.node_id
        and (sees_all or call.denied("DESCRIBE", "group", name) == ErrorCode.NONE)
    ]
    states, types = request.states_filter, request.types_filter
    return ListGroupsResponse(
        groups=tuple(
            row for row in rows if (not states or row.group_state in states) and (not types or row.group_type in types)
        )
    )


def _listed(name: str, group: FakeGroup) -> ListedGroup:
    joined = group.joined
    if joined is None:
        return ListedGroup(group_id=name, protocol_type="", group_state="Empty", group_type="classic")
    if isinstance(joined, ClassicGroup):
        state = STATES[joined.state]
        return ListedGroup(group_id=name, protocol_type="consumer", group_state=state, group_type="classic")
    state = "Stable" if joined.members else "Empty"
    return ListedGroup(group_id=name, protocol_type="consumer", group_state=state, group_type="consumer")
