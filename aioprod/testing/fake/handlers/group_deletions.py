"""How a fake broker answers DeleteGroups and OffsetDelete."""

from __future__ import annotations

from aioprod.errors import ErrorCode
from aioprod.messages import DeleteGroupsRequest, DeleteGroupsResponse, OffsetDeleteRequest, OffsetDeleteResponse
from aioprod.messages.delete_groups import DeletableGroupResult
from aioprod.messages.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.state.groups import FakeGroup
from aioprod.types import TopicPartition

__all__ = ["delete_groups", "offset_delete"]


def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups that have no members."""
    rows = [DeletableGroupResult(group_id=name, error_code=_deleted(call, name)) for name in request.groups_names]
    return DeleteGroupsResponse(results=tuple(rows))


def _deleted(call: Call, name: str) -> ErrorCode:
    if error := _error(call, name):
        return error
    if call.state.groups[name].has_members:
        return ErrorCode.NON_EMPTY_GROUP
    del call.state.groups[name]
    return ErrorCode.NONE


def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete committed offsets of topics that no member reads."""
    if error := _error(call, request.group_id):
        return OffsetDeleteResponse(error_code=error, topics=())
    group = call.state.groups[request.group_id]
    if group.hides_topics:
        return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP, topics=())
    topics = []
    for topic in request.topics:
        rows = [
            OffsetDeleteResponsePartition(
                partition_index=row.partition_index,
                error_code=_forgotten(call, group, TopicPartition(topic.name, row.partition_index)),
            )
            for row in topic.partitions
        ]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(rows)))
    return OffsetDeleteResponse(topics=tuple(topics))


def _forgotten(call: Call, group: FakeGroup, tp: TopicPartition) -> ErrorCode:
    if denied := call.denied("READ", "topic", tp.topic):
        return denied
    if call.state.topics.partition(tp) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if tp.topic in group.subscribed:
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    group.offsets.pop(tp, None)
    return ErrorCode.NONE


def _error(call: Call, name: str) -> ErrorCode:
    """The error for a group that can't be deleted from by this client and here, NONE if it can."""
    if error := call.fault.error or call.denied("DELETE", "group", name) or call.misdirected(name):
        return error
    return ErrorCode.NONE if name in call.state.groups else ErrorCode.GROUP_ID_NOT_FOUND
