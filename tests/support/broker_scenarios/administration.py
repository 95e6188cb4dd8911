"""CreatePartitions and ListGroups."""

from __future__ import annotations

from aioprod.errors import ErrorCode
from aioprod.messages import CreatePartitionsRequest, ListGroupsRequest
from aioprod.messages.create_partitions import CreatePartitionsTopic
from aioprod.messages.list_groups import ListedGroup
from tests.support.broker_scenarios.scenario import scenario
from tests.support.lab import Lab

LIST_VERSION = 5
NONE = ErrorCode.NONE


async def grown(lab: Lab, name: str, count: int, *, validate_only: bool = False) -> tuple[int, str | None]:
    """CreatePartitions to so many partitions in all: error and message."""
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=(wanted,), timeout_ms=10_000, validate_only=validate_only)
    (row,) = (await lab.request(request, 3)).results
    assert row.name == name
    return row.error_code, row.error_message


async def listed(lab: Lab, group: str, **filters: tuple[str, ...]) -> ListedGroup | None:
    """The row of a group in ListGroups, None if it is not listed."""
    answer = await lab.request(ListGroupsRequest(**filters), LIST_VERSION)
    assert answer.error_code == NONE
    return next((row for row in answer.groups if row.group_id == group), None)


@scenario
async def a_topic_grows(lab: Lab) -> None:
    """To the requested count, never to a smaller one, and not with `validate_only`."""
    topic = await lab.topic()
    assert await grown(lab, topic.name, 3, validate_only=True) == (NONE, None)
    assert await grown(lab, topic.name, 3) == (NONE, None)
    assert await grown(lab, topic.name, 3) == (ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s).")
    code, message = await grown(lab, topic.name, 2)
    assert code == ErrorCode.INVALID_PARTITIONS
    assert message == f"The topic {topic.name} currently has 3 partition(s); 2 would not be an increase."
    assert await grown(lab, lab.new_name("missing"), 2) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


@scenario
async def groups_are_listed(lab: Lab) -> None:
    """A group that has only offsets; filters by state and type."""
    topic, group = await lab.topic(), lab.new_name("group")
    assert await listed(lab, group) is None
    assert await lab.commit(group, topic, 5) == NONE
    row = ListedGroup(group_id=group, protocol_type="", group_state="Empty", group_type="classic")
    assert await listed(lab, group) == row
    assert await listed(lab, group, states_filter=("Empty",), types_filter=("classic",)) == row
    assert await listed(lab, group, states_filter=("Stable",)) is None
    assert await listed(lab, group, types_filter=("consumer",)) is None
