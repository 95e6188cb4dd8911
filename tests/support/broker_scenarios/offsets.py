"""Committed offsets of groups, with and without transactions."""

from __future__ import annotations

import asyncio
import uuid

from aioprod.errors import ErrorCode
from aioprod.messages import OffsetCommitRequest
from aioprod.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.support.broker_scenarios.scenario import scenario, scenario_of_version_2
from tests.support.lab import PATIENCE_S, Lab, Topic

NONE = ErrorCode.NONE


async def commit_by_id(lab: Lab, group: str, *rows: tuple[Topic, int, int]) -> list[ErrorCode | int]:
    """OffsetCommit by topic id: the error of each topic, partition and offset."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic.name,
            topic_id=topic.id,
            partitions=(
                OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=""),
            ),
        )
        for topic, partition, offset in rows
    ]
    answer = await lab.request(OffsetCommitRequest(group_id=group, member_id="", topics=tuple(topics)), 10)
    found = {
        (topic.topic_id, row.partition_index): ErrorCode.of(row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    }
    assert not any(topic.name for topic in answer.topics)
    return [found[topic.id, partition] for topic, partition, _ in rows]


@scenario
async def plain_commit(lab: Lab) -> None:
    """Offsets of a group without members."""
    topic, group = await lab.topic(), lab.new_name("group")
    assert await lab.committed(group, topic) == (NONE, -1)
    assert await lab.commit(group, topic, 5) == NONE
    assert await lab.committed(group, topic, stable=True) == (NONE, 5)


@scenario_of_version_2
async def commit_by_topic_id(lab: Lab) -> None:
    """An id that no topic has is the error of that topic alone."""
    topic, group = await lab.topic(), lab.new_name("group")
    missing = Topic(topic.name, uuid.uuid4())
    rows = [(missing, 0, 4), (topic, 0, 5), (topic, 7, 6)]
    assert await commit_by_id(lab, group, *rows) == [
        ErrorCode.UNKNOWN_TOPIC_ID, NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert await lab.committed(group, topic) == (NONE, 5)


@scenario_of_version_2
async def commit_by_the_id_of_a_deleted_topic(lab: Lab) -> None:
    """It is not stored for a topic of the same name that is created later; a commit by name is."""
    topic, other, group = await lab.topic(), await lab.topic(), lab.new_name("group")
    assert await commit_by_id(lab, group, (topic, 0, 5)) == [NONE]
    await lab.delete(topic)
    assert await commit_by_id(lab, group, (topic, 0, 6), (other, 0, 7)) == [ErrorCode.UNKNOWN_TOPIC_ID, NONE]
    again = await lab.topic(topic.name)
    async with asyncio.timeout(PATIENCE_S):
        # The coordinator forgets the offsets of the deleted one later than the broker that answers Metadata.
        while await lab.committed(group, again) != (NONE, -1):
            await asyncio.sleep(0.01)
    assert await commit_by_id(lab, group, (topic, 0, 8)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert await lab.committed(group, again) == (NONE, -1)
    assert await commit_by_id(lab, group, (again, 0, 1)) == [NONE]
    assert await lab.committed(group, again) == (NONE, 1)
    assert await lab.commit(group, topic, 9) == NONE
    assert await lab.committed(group, again) == (NONE, 9)


@scenario_of_version_2
async def commit_with_a_transaction_by_topic_id(lab: Lab) -> None:
    """An id that no topic has, also that of a deleted topic whose name another one has by then, is an error."""
    topic, group, (name, producer) = await lab.topic(), lab.new_name("group"), await lab.new_producer()
    assert await lab.commit_in(name, producer, group, Topic(topic.name, uuid.uuid4()), 4, version=6) == (
        ErrorCode.UNKNOWN_TOPIC_ID
    )
    assert await lab.commit_in(name, producer, group, topic, 5, version=6) == NONE
    ended = await lab.end(name, producer, commits=True)
    assert await lab.committed_at_last(group, topic) == 5
    await lab.delete(topic)
    again = await lab.topic(topic.name)
    async with asyncio.timeout(PATIENCE_S):
        # The coordinator learns of the two later than the broker that answers Metadata.
        while await lab.committed(group, again) != (NONE, -1):
            await asyncio.sleep(0.01)
    assert await lab.commit_in(name, ended.producer, group, topic, 6, version=6) == ErrorCode.UNKNOWN_TOPIC_ID
    assert await lab.commit_in(name, ended.producer, group, again, 7, version=6) == NONE
    assert (await lab.end(name, ended.producer, commits=True)).error == NONE
    assert await lab.committed_at_last(group, again) == 7


@scenario
async def limits(lab: Lab) -> None:
    """Unknown topics, and metadata that is too long."""
    topic, group = await lab.topic(), lab.new_name("group")
    missing = Topic(lab.new_name("missing"), topic.id)
    assert await lab.commit(group, missing, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await lab.commit(group, topic, 1, metadata="m" * 4096) == NONE
    assert await lab.commit(group, topic, 2, metadata="m" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    name, producer = await lab.new_producer()
    await lab.add_offsets(name, producer, group)
    assert await lab.commit_in(name, producer, group, missing, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    too_long = await lab.commit_in(name, producer, group, topic, 1, metadata="m" * 4097)
    assert too_long == ErrorCode.OFFSET_METADATA_TOO_LARGE


@scenario
async def requests_without_membership(lab: Lab) -> None:
    """A request with a generation or member must be a member's; one with a generation creates no group."""
    topic, group = await lab.topic(), lab.new_name("group")
    assert await lab.commit(group, topic, 1, generation=5, member="me") == ErrorCode.ILLEGAL_GENERATION
    name, producer = await lab.new_producer()
    await lab.add_offsets(name, producer, group)
    error = await lab.commit_in(name, producer, group, topic, 1, generation=5, member="me")
    # The second is the error of brokers before 4.0.
    assert error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
    assert await lab.commit(group, topic, 1) == NONE
    assert await lab.commit(group, topic, 2, generation=5, member="me") == ErrorCode.UNKNOWN_MEMBER_ID
    error = await lab.commit_in(name, producer, group, topic, 1, generation=5, member="me")
    assert error == ErrorCode.UNKNOWN_MEMBER_ID


@scenario
async def commit_with_a_transaction(lab: Lab) -> None:
    """The offset is visible after the commit; until then requests for stable offsets fail."""
    topic, group, (name, producer) = await lab.topic(), lab.new_name("group"), await lab.new_producer()
    assert await lab.commit(group, topic, 1) == NONE
    if lab.level == 1:
        assert await lab.add_offsets(name, producer, group) == NONE
    for offset in (7, 8):
        assert await lab.commit_in(name, producer, group, topic, offset) == NONE
    assert await lab.committed(group, topic) == (NONE, 1)
    assert await lab.committed(group, topic, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert (await lab.end(name, producer, commits=True)).error == NONE
    assert await lab.committed_at_last(group, topic) == 8


@scenario
async def commit_during_a_transaction(lab: Lab) -> None:
    """Of a plain commit and that of a transaction, the one that came later counts, not the one that ended later."""
    topic, group, (name, producer) = await lab.topic(), lab.new_name("group"), await lab.new_producer()
    assert await lab.add_offsets(name, producer, group) == NONE
    assert await lab.commit_in(name, producer, group, topic, 7) == NONE
    assert await lab.commit(group, topic, 3) == NONE
    assert await lab.committed(group, topic) == (NONE, 3)
    assert (await lab.end(name, producer, commits=True)).error == NONE
    assert await lab.committed_at_last(group, topic) == 3


@scenario
async def commits_before_and_during_a_transaction(lab: Lab) -> None:
    """A transaction that commits once more after a plain commit is the later one."""
    topic, group, (name, producer) = await lab.topic(), lab.new_name("group"), await lab.new_producer()
    assert await lab.add_offsets(name, producer, group) == NONE
    assert await lab.commit_in(name, producer, group, topic, 7) == NONE
    assert await lab.commit(group, topic, 3) == NONE
    assert await lab.commit_in(name, producer, group, topic, 8) == NONE
    assert (await lab.end(name, producer, commits=True)).error == NONE
    assert await lab.committed_at_last(group, topic) == 8


@scenario
async def abort_with_a_transaction(lab: Lab) -> None:
    """The offset stays what it was."""
    topic, group, (name, producer) = await lab.topic(), lab.new_name("group"), await lab.new_producer()
    assert await lab.commit(group, topic, 1) == NONE
    assert await lab.add_offsets(name, producer, group) == NONE
    assert await lab.commit_in(name, producer, group, topic, 7) == NONE
    assert (await lab.end(name, producer, commits=False)).error == NONE
    assert await lab.committed_at_last(group, topic) == 1


@scenario
async def commit_that_was_not_added(lab: Lab) -> None:
    """Before version 5 the group must have been added; the error depends on the version."""
    topic, group, (name, producer) = await lab.topic(), lab.new_name("group"), await lab.new_producer()
    error = await lab.commit_in(name, producer, group, topic, 7, version=4)
    assert error == ErrorCode.TRANSACTION_ABORTABLE
    assert await lab.commit_in(name, producer, group, topic, 7, version=3) == ErrorCode.INVALID_TXN_STATE
    assert await lab.committed(group, topic, stable=True) == (NONE, -1)


@scenario
async def topics_without_offsets(lab: Lab) -> None:
    """The offset is -1, whether or not the group or topic exists."""
    topic, group = await lab.topic(), lab.new_name("group")
    missing = Topic(lab.new_name("missing"), topic.id)
    assert await lab.committed(group, topic) == await lab.committed(group, missing) == (NONE, -1)
    assert await lab.commit(group, topic, 5) == NONE
    assert await lab.committed(group, missing) == (NONE, -1)


@scenario
async def producers_that_are_not_in_the_transaction(lab: Lab) -> None:
    """An unknown transactional id, and another producer id than its own."""
    topic, group, (name, producer) = await lab.topic(), lab.new_name("group"), await lab.new_producer()
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await lab.commit_in(lab.new_name("missing"), producer, group, topic, 1) == mapping
    assert await lab.commit_in(name, (producer[0] + 1000, producer[1]), group, topic, 1) == mapping
    assert await lab.add_offsets(lab.new_name("missing"), producer, group) == mapping
