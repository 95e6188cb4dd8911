"""Offsets of groups that are reset or deleted, and groups that are deleted, with fake brokers."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from aioprod.admin import Admin, OffsetChange
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    GroupFailuresError,
    InvalidTopicError,
    ProtocolError,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.group import Member
from aioprod.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
)
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.groups import Committed, FakeGroup
from aioprod.types import OffsetAndMetadata, TopicPartition
from tests.support.sessions import FAST
from tests.support.stored_batches import fill

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
FIRST, SECOND, THIRD = (TopicPartition("t", index) for index in range(3))
OTHER = TopicPartition("other", 0)


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[tuple[FakeCluster, Admin]]:
    """Group `g` has committed in two of three partitions of `t`, which have offsets 2 to 10, and in `other`."""
    async with FakeCluster(2) as brokers, Admin(brokers.bootstrap, **{**FAST, **options}) as admin:
        for log in brokers.create_topic("t", 3).partitions:
            fill(log, 10)
        fill(brokers.create_topic("other").partitions[0], 5)
        await admin.delete_records(dict.fromkeys((FIRST, SECOND, THIRD), 2))
        offsets = {FIRST: Committed(4, metadata="marks"), SECOND: Committed(9), OTHER: Committed(1)}
        brokers.state.groups["g"] = FakeGroup(offsets=offsets)
        yield brokers, admin


@asynccontextmanager
async def joined(brokers: FakeCluster, protocol: Any, group: str = "g", topic: str = "t") -> AsyncIterator[Member]:
    """A member that has partitions."""
    assigned = asyncio.Event()
    async with Member(
        brokers.bootstrap,
        group_id=group,
        topics=topic,
        group_protocol=protocol,
        on_assigned=lambda partitions: assigned.set(),
        **FAST,
    ) as member:
        async with asyncio.timeout(30):
            await assigned.wait()
        yield member


def changed(**by_index: tuple[int | None, int]) -> dict[TopicPartition, OffsetChange]:
    return {TopicPartition("t", int(index[1:])): OffsetChange(*change) for index, change in by_index.items()}


async def committed(admin: Admin, topic: str = "t") -> dict[int, int]:
    return {tp.partition: at.offset for tp, at in (await admin.group_offsets("g")).items() if tp.topic == topic}


async def error_of(awaitable: Any, kind: type[AioprodError]) -> AioprodError:
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value


# --- offsets that are reset


@pytest.mark.parametrize(
    ("to", "first", "second"),
    [
        ("earliest", 2, 2),
        ("latest", 10, 10),
        (1006, 6, 6),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, 6000, tzinfo=datetime.UTC), 6, 6),
        (1_000_000, 10, 10),
        ({FIRST: 2, SECOND: 10}, 2, 10),
    ],
)
async def test_where_offsets_are_reset_to(to: Any, first: int, second: int) -> None:
    async with opened() as (brokers, admin):
        chosen = None if isinstance(to, dict) else [FIRST, SECOND]
        planned = await admin.reset_offsets("g", to, partitions=chosen, dry_run=True)
        assert planned == changed(p0=(4, first), p1=(9, second))
        assert brokers.seen_of(OffsetCommitRequest) == []
        assert await committed(admin) == {0: 4, 1: 9}
        assert await admin.reset_offsets("g", to, partitions=chosen) == planned
        assert await committed(admin) == {0: first, 1: second}
        assert await committed(admin, "other") == {0: 1}
        # What the metadata said is about the offset before.
        assert (await admin.group_offsets("g"))[FIRST] == OffsetAndMetadata(first, "")


async def test_offsets_are_shifted() -> None:
    async with opened() as (_, admin):
        assert await admin.reset_offsets("g", shift_by=1) == {OTHER: OffsetChange(1, 2)} | changed(
            p0=(4, 5), p1=(9, 10)
        )
        assert await admin.reset_offsets("g", shift_by=-3, partitions=FIRST) == changed(p0=(5, 2))
        assert await committed(admin) == {0: 2, 1: 10}


async def test_a_topic_stands_for_all_of_its_partitions() -> None:
    async with opened() as (_, admin):
        found = await admin.reset_offsets("g", "earliest", partitions="t")
        assert found == changed(p0=(4, 2), p1=(9, 2), p2=(None, 2))
        assert await admin.reset_offsets("g", "latest", partitions=["other", THIRD, "other"]) == {
            OTHER: OffsetChange(1, 5),
            THIRD: OffsetChange(2, 10),
        }
        assert await admin.reset_offsets("g", {}) == {}


@PROTOCOLS
async def test_a_group_with_members_is_not_reset(protocol: str) -> None:
    async with opened() as (brokers, admin):
        async with joined(brokers, protocol):
            for dry_run in (True, False):
                error = await error_of(admin.reset_offsets("g", "earliest", dry_run=dry_run), BrokerError)
                assert error.message == "Nothing was committed: group 'g' is Stable, with 1 member."
                assert "Close its members first" in str(error.hint)
                assert getattr(error, "code", None) == ErrorCode.NON_EMPTY_GROUP
            assert brokers.seen_of(OffsetCommitRequest) == []
        await admin.reset_offsets("g", "earliest", partitions="t")
        assert await committed(admin) == {0: 2, 1: 2, 2: 2}


async def test_a_member_that_comes_meanwhile() -> None:
    async with opened() as (brokers, admin):
        brokers.fault(OffsetCommitRequest, error=ErrorCode.UNKNOWN_MEMBER_ID)
        error = await error_of(admin.reset_offsets("g", "earliest"), BrokerError)
        assert error.message == "Nothing was committed: group 'g' has got a member meanwhile."
        assert not error.may_be_stored
        brokers.fault(OffsetCommitRequest, drop="after")
        brokers.fault(OffsetCommitRequest, error=ErrorCode.UNKNOWN_MEMBER_ID)
        # The first try has committed.
        unclear = await error_of(admin.reset_offsets("g", "earliest"), BrokerError)
        assert unclear.may_be_stored
        assert "could not commit" in unclear.message
        brokers.fault(OffsetCommitRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        denied = await error_of(admin.reset_offsets("g", "latest"), AuthorizationError)
        assert "Allow the principal of this client READ on topic 'other'" in str(denied.hint)


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ({}, ConfigError, "Give either a place to reset the offsets to, or shift_by."),
        ({"to": "earliest", "shift_by": 1}, ConfigError, "Give either a place"),
        ({"to": "newest"}, ConfigError, "to is 'newest': give a time"),
        ({"to": datetime.datetime(2026, 1, 1)}, ConfigError, "give an aware datetime"),
        ({"shift_by": 1.5}, ConfigError, "shift_by is 1.5: give a number of offsets"),
        ({"shift_by": True}, ConfigError, "shift_by is True"),
        ({"to": {FIRST: -1}}, ConfigError, "offsets has -1"),
        ({"to": {FIRST: 3}, "partitions": "t"}, ConfigError, "leave `partitions` out"),
        ({"to": "latest", "partitions": 5}, ConfigError, "partitions is 5: give names of topics"),
        ({"to": "latest", "partitions": [("t",)]}, ConfigError, "for a partition"),
        ({"to": "latest", "partitions": "no topic"}, InvalidTopicError, "no topic"),
        ({"to": "latest", "partitions": "missing"}, UnknownTopicError, "'missing' does not exist"),
        ({"to": "latest", "partitions": TopicPartition("t", 3)}, UsageError, "has no partition 3: it has 3."),
        (
            {"to": {FIRST: 11}},
            BrokerError,
            "Nothing was committed: offset 11 of t-0 is not in its log, which begins at 2 and ends at 10.",
        ),
        ({"to": {FIRST: 1, SECOND: 11, THIRD: 2}}, BrokerError, "ends at 10. Nor are those of 1 other partition."),
        ({"shift_by": -3}, BrokerError, "offset -2 of other-0 is not in its log"),
        ({"shift_by": 1, "partitions": "t"}, UsageError, "'g' has committed nothing for t-2: no offset is there"),
    ],
)
async def test_nothing_is_committed_for(arguments: dict[str, Any], kind: type[AioprodError], said: str) -> None:
    async with opened() as (brokers, admin):
        error = await error_of(admin.reset_offsets("g", **arguments), kind)
        assert said in error.message
        assert brokers.seen_of(OffsetCommitRequest) == []


async def test_groups_that_can_not_be_reset() -> None:
    async with opened() as (brokers, admin):
        missing = await error_of(admin.reset_offsets("x", "latest", partitions="t"), BrokerError)
        assert missing.message == "Group 'x' does not exist."
        brokers.state.groups["new"] = FakeGroup()
        empty = await error_of(admin.reset_offsets("new", "latest"), UsageError)
        assert empty.message == "Group 'new' has committed nothing: name the topics to set its offsets for."
        assert await admin.reset_offsets("new", "latest", partitions=FIRST) == changed(p0=(None, 10))
        await error_of(admin.reset_offsets("", "latest"), ConfigError)


async def test_an_open_transaction_is_waited_for() -> None:
    async with opened() as (brokers, admin):
        group = brokers.state.groups["g"]
        group.pending[7] = {FIRST: Committed(6)}
        resetting = asyncio.create_task(admin.reset_offsets("g", "earliest"))
        async with asyncio.timeout(30):
            # The first finds out which offsets there are.
            while len(brokers.seen_of(OffsetFetchRequest)) < 4:
                await asyncio.sleep(0.005)
        assert not resetting.done()
        group.end_transaction(7, commits=True)
        assert (await resetting)[FIRST] == OffsetChange(6, 2)


# --- offsets that are deleted


@PROTOCOLS
async def test_offsets_are_deleted(protocol: str) -> None:
    async with opened() as (brokers, admin):
        async with joined(brokers, protocol):
            error = await error_of(admin.delete_offsets("g", FIRST), BrokerError)
            assert error.message == (
                "The offset of group 'g' for t-0 could not be deleted: members of the group read topic 't'."
            )
            assert error.hint == "Close its members first."
            missing = TopicPartition("missing", 0)
            failures = await error_of(admin.delete_offsets("g", [FIRST, OTHER, missing]), GroupFailuresError)
            assert isinstance(failures, GroupFailuresError)
            assert failures.message.startswith("2 of 3 offsets were not deleted. The offset of group 'g' for missing-0")
            assert {tp: type(one) for tp, one in failures.failures.items()} == {
                FIRST: BrokerError,
                missing: UnknownTopicError,
            }
            assert await committed(admin, "other") == {}
        await admin.delete_offsets("g", [FIRST, THIRD])
        assert await committed(admin) == {1: 9}
        request = brokers.seen_of(OffsetDeleteRequest)[-1]
        assert [(topic.name, len(topic.partitions)) for topic in request.topics] == [("t", 2)]


async def test_offsets_that_can_not_be_deleted() -> None:
    def left_out(answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
        return replace(answer, topics=())

    async with opened() as (brokers, admin):
        for code, said in (
            (ErrorCode.GROUP_ID_NOT_FOUND, "Group 'g' does not exist."),
            (ErrorCode.NON_EMPTY_GROUP, "Offsets of group 'g' could not be deleted: the group has members."),
        ):
            brokers.fault(OffsetDeleteRequest, error=code)
            error = await error_of(admin.delete_offsets("g", FIRST), BrokerError)
            assert error.message == said
        brokers.fault(OffsetDeleteRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        brokers.fault(OffsetDeleteRequest, edit=left_out)
        await error_of(admin.delete_offsets("g", FIRST), ProtocolError)
        for wrong in (5, "t", [("t", -1)]):
            wrong_partitions: Any = wrong
            await error_of(admin.delete_offsets("g", wrong_partitions), ConfigError)
        for node in (1, 2):
            del brokers[node].versions[OffsetDeleteRequest]
        async with Admin(brokers.bootstrap, **FAST) as old:
            await error_of(old.delete_offsets("g", FIRST), UnsupportedVersionError)


# --- groups that are deleted


@PROTOCOLS
async def test_groups_are_deleted(protocol: str) -> None:
    async with opened() as (brokers, admin):
        brokers.state.groups["h"] = FakeGroup(offsets={FIRST: Committed(1)})
        await admin.delete_groups("h", "h")
        assert "h" not in brokers.state.groups
        async with joined(brokers, protocol, group="used"):
            error = await error_of(admin.delete_groups("used"), BrokerError)
            assert error.message == "Group 'used' could not be deleted: the group has members."
            assert error.hint == "Close its members first."
            failures = await error_of(admin.delete_groups("used", "g", "x"), GroupFailuresError)
            assert isinstance(failures, GroupFailuresError)
            assert failures.message == (
                "2 of 3 groups were not deleted. Group 'used' could not be deleted: the group has members. "
                "Group 'x' does not exist."
            )
            assert sorted(failures.failures) == ["used", "x"]
        assert "g" not in brokers.state.groups
        await admin.delete_groups("used")
        assert await admin.groups() == []
        await error_of(admin.delete_groups("used"), BrokerError)
        await admin.delete_groups("used", "g", missing_ok=True)
        await admin.delete_groups()


async def test_groups_that_may_be_deleted_already() -> None:
    def nothing(answer: DeleteGroupsResponse) -> DeleteGroupsResponse:
        return replace(answer, results=())

    async with opened() as (brokers, admin):
        brokers.fault(DeleteGroupsRequest, drop="after")
        error = await error_of(admin.delete_groups("g"), BrokerError)
        assert error.message == "Group 'g' does not exist."
        assert error.hint == "An earlier try of this call had no clear response: it may have deleted it."
        brokers.state.groups["g"] = FakeGroup()
        brokers.fault(DeleteGroupsRequest, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        denied = await error_of(admin.delete_groups("g"), AuthorizationError)
        assert "DELETE on group 'g'" in str(denied.hint)
        brokers.fault(DeleteGroupsRequest, edit=nothing)
        again = await error_of(admin.delete_groups("g"), BrokerError)
        assert again.hint == error.hint
        await error_of(admin.delete_groups(""), ConfigError)
