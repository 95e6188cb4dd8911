"""Several topics at once, topics that grow, the cluster and its groups, with fake brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from aioprod import errors
from aioprod.admin import Admin
from aioprod.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    InvalidTopicError,
    MetadataTimeoutError,
    RequestTimedOutError,
    TopicExistsError,
    TopicFailuresError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from aioprod.group import Member
from aioprod.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    ListGroupsRequest,
    MetadataRequest,
    OffsetFetchRequest,
)
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.groups import Committed, FakeGroup
from aioprod.types import OffsetAndMetadata, TopicPartition
from tests.support.sessions import FAST
from tests.support.stored_batches import fill


def new_admin(brokers: FakeCluster, **options: Any) -> Admin:
    return Admin(brokers.bootstrap, **{**FAST, **options})


def counts(brokers: FakeCluster) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in brokers.topics.items()}


# --- several topics


async def test_several_topics_at_once() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topics(["a", "b"], partitions=2, config={"retention_ms": 5})
        await admin.create_topics({"c": 3, "d": 4})
        assert counts(brokers) == {"a": 2, "b": 2, "c": 3, "d": 4}
        assert brokers.topics["b"].config == {"retention.ms": "5"}
        await admin.delete_topics(["a", "c"])
        assert counts(brokers) == {"b": 2, "d": 4}
        assert len(brokers.seen_of(CreateTopicsRequest)) == 2
        assert len(brokers.seen_of(DeleteTopicsRequest)) == 1
        await admin.create_topics([])
        await admin.delete_topics("d")
        assert counts(brokers) == {"b": 2}
        assert len(brokers.seen_of(CreateTopicsRequest)) == 2


async def test_what_can_be_done_is_done_and_the_error_names_the_others() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topic("b")
        with pytest.raises(
            TopicFailuresError, match=r"^2 of 3 topics were not created\. Topic 'b' .* Topic 'c' "
        ) as one:
            await admin.create_topics({"a": 1, "b": 1, "c": 0})
        assert sorted(one.value.failures) == ["b", "c"]
        assert isinstance(one.value.failures["b"], TopicExistsError)
        assert isinstance(one.value.failures["c"], BrokerError)
        with pytest.raises(TopicFailuresError, match="1 of 2 topics were not deleted") as other:
            await admin.delete_topics(["a", "x"])
        assert isinstance(other.value.failures["x"], UnknownTopicError)
        assert counts(brokers).keys() == {"b"}


async def test_topics_that_may_be_there_already_or_not_at_all() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topic("a", partitions=2)
        with pytest.raises(TopicExistsError, match=r"Topic 'a' could not be created: .* already exists") as failure:
            await admin.create_topic("a")
        assert failure.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        await admin.create_topic("a", partitions=9, exists_ok=True)
        await admin.create_topics(["a", "b"], exists_ok=True)
        assert counts(brokers) == {"a": 2, "b": 1}
        await admin.delete_topics(["a", "x"], missing_ok=True)
        await admin.delete_topic("x", missing_ok=True)
        assert counts(brokers) == {"b": 1}
        with pytest.raises(UnknownTopicError, match=r"^Topic 'x' could not be deleted: there is no such topic\.$"):
            await admin.delete_topic("x")
        with pytest.raises(InvalidTopicError):
            await admin.create_topics(["c", "no topic"])
        assert "c" not in brokers.topics


async def test_brokers_before_2_4_choose_no_numbers_for_any_topic() -> None:
    async with FakeCluster() as brokers:
        brokers[1].versions[CreateTopicsRequest] = (2, 3)
        async with new_admin(brokers) as old:
            with pytest.raises(UnsupportedVersionError, match="'a' could not be created: the broker chooses"):
                await old.create_topics({"a": 1, "b": -1}, replication_factor=1)
            assert brokers.seen_of(CreateTopicsRequest) == []
            await old.create_topics({"a": 1, "b": 2}, replication_factor=1)
        assert counts(brokers) == {"a": 1, "b": 2}


async def test_only_what_failed_is_tried_again() -> None:
    def edit(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        rows = [
            replace(row, error_code=ErrorCode.REQUEST_TIMED_OUT) if row.name == "b" else row for row in answer.topics
        ]
        return replace(answer, topics=tuple(rows))

    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers.fault(CreateTopicsRequest, edit=edit)
        with pytest.raises(TopicFailuresError) as failure:
            await admin.create_topics(["a", "b", "c"])
        # It was created by the first try, whose answer did not say so.
        assert "may have done" in str(failure.value.failures["b"].hint)
        assert [[topic.name for topic in one.topics] for one in brokers.seen_of(CreateTopicsRequest)] == [
            ["a", "b", "c"],
            ["b"],
        ]


async def test_topics_without_leaders_are_among_those_that_failed() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers.fault(MetadataRequest, times=None, error=ErrorCode.LEADER_NOT_AVAILABLE)
        with pytest.raises(TopicFailuresError) as failure:
            await admin.create_topics(["a", "b"], timeout=0.2)
        # A request may be on its way when the time is over.
        failures = failure.value.failures
        assert set(failures) == {"a", "b"}
        assert all(isinstance(error, (MetadataTimeoutError, RequestTimedOutError)) for error in failures.values())


# --- topics that grow


async def test_a_topic_grows() -> None:
    async with FakeCluster(2) as brokers, new_admin(brokers) as admin:
        await admin.create_topic("a", partitions=2)
        await admin.create_partitions("a", 5)
        assert len(await admin.partitions("a")) == 5
        for count in (5, 3):
            with pytest.raises(BrokerError, match="Topic 'a' could not get more partitions: ") as failure:
                await admin.create_partitions("a", count)
            assert failure.value.code == ErrorCode.INVALID_PARTITIONS
        with pytest.raises(UnknownTopicError, match="there is no such topic"):
            await admin.create_partitions("x", 5)
        with pytest.raises(InvalidTopicError):
            await admin.create_partitions("no topic", 5)
        (first, *_) = brokers.seen_of(CreatePartitionsRequest)
        assert (first.topics[0].count, first.timeout_ms, first.validate_only) == (5, 30_000, False)


async def test_new_partitions_are_waited_for() -> None:
    def as_before(answer: Any) -> Any:
        rows = (replace(topic, partitions=topic.partitions[:1]) for topic in answer.topics)
        return replace(answer, topics=tuple(rows))

    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topic("a")
        brokers.fault(MetadataRequest, times=4, edit=as_before)
        seen = len(brokers.seen_of(MetadataRequest))
        await admin.create_partitions("a", 2)
        assert len(brokers.seen_of(MetadataRequest)) >= seen + 5


# --- the cluster and its groups


async def test_the_cluster() -> None:
    async with FakeCluster(3) as brokers, new_admin(brokers) as admin:
        found = await admin.describe_cluster()
        assert found.cluster_id == brokers.state.cluster_id
        assert [(node.id, (node.host, node.port)) for node in found.nodes] == [
            (key, brokers[key].address) for key in (1, 2, 3)
        ]
        assert found.controller == found.nodes[0]
        assert brokers.seen_of(MetadataRequest)[-1].topics == ()


async def test_the_groups() -> None:
    async with FakeCluster(3) as brokers, new_admin(brokers) as admin:
        assert await admin.groups() == []
        brokers.create_topic("t")
        brokers.state.groups["only-offsets"] = FakeGroup(offsets={TopicPartition("t", 0): Committed(3)})
        options = {**FAST, "topics": "t"}
        async with (
            Member(brokers.bootstrap, group_id="classics", **options) as one,
            Member(brokers.bootstrap, group_id="modern", group_protocol="consumer", **options) as two,
        ):
            for member in (one, two):
                await joined(member)
            assert [tuple(group) for group in await admin.groups()] == [
                ("classics", "Stable", "classic", "consumer"),
                ("modern", "Stable", "consumer", "consumer"),
                ("only-offsets", "Empty", "classic", ""),
            ]
        assert {group.group_id: group.state for group in await admin.groups()} == {
            "classics": "Empty",
            "modern": "Empty",
            "only-offsets": "Empty",
        }
        for node in (1, 2, 3):
            brokers[node].versions[ListGroupsRequest] = (0, 3)
        async with new_admin(brokers) as old:
            assert {(group.state, group.type) for group in await old.groups()} == {(None, None)}


async def joined(member: Member) -> None:
    """Wait until the member owns something."""
    waiting = asyncio.ensure_future(anext(member))
    async with asyncio.timeout(20):
        while not member.assignment:
            await asyncio.sleep(0.005)
    waiting.cancel()
    await asyncio.wait([waiting])


@pytest.mark.parametrize("versions", [(2, 7), (1, 9), (1, 10)])
async def test_what_a_group_has_committed(versions: tuple[int, int]) -> None:
    first, second, gone = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers[1].versions[OffsetFetchRequest] = versions
        for log in brokers.create_topic("t", 3).partitions:
            fill(log, 10)
        brokers.create_topic("gone")
        offsets = {first: Committed(3, metadata="x"), second: Committed(12), gone: Committed(5)}
        brokers.state.groups["g"] = FakeGroup(offsets=offsets)
        assert await admin.group_offsets("g") == {
            gone: OffsetAndMetadata(5, ""),
            first: OffsetAndMetadata(3, "x"),
            second: OffsetAndMetadata(12, ""),
        }
        assert await admin.group_offsets("nobody") == {}
        assert await admin.group_lag("nobody") == {}
        assert await admin.group_lag("g") == {gone: 0, first: 7, second: 0}
        with pytest.raises(ConfigError, match="group_id"):
            await admin.group_offsets("")


async def test_the_lag_of_a_deleted_topic() -> None:
    def without(answer: Any) -> Any:
        return replace(answer, topics=tuple(topic for topic in answer.topics if topic.name != "gone"))

    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        gone = TopicPartition("gone", 0)
        brokers.create_topic("gone")
        brokers.state.groups["g"] = FakeGroup(offsets={gone: Committed(5)})
        brokers.fault(MetadataRequest, times=None, edit=without)
        assert await admin.group_lag("g") == {gone: None}


async def test_calls_have_an_end() -> None:
    soon: dict[str, Any] = {"timeout": 0.05}
    async with FakeCluster() as brokers, new_admin(brokers, default_api_timeout_ms=600_000) as admin:
        brokers.fault(MetadataRequest, times=None, error=ErrorCode.UNKNOWN_SERVER_ERROR, silent=True)
        brokers.fault(ListGroupsRequest, times=None, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: admin.topics(**soon),
            lambda: admin.partition_counts(**soon),
            lambda: admin.describe_topics(**soon),
            lambda: admin.describe_cluster(**soon),
            lambda: admin.groups(**soon),
        ]
        for call in calls:
            with pytest.raises(RequestTimedOutError, match="in time"):
                await call()
        with pytest.raises(RequestTimedOutError):
            await admin.group_offsets("g", timeout=0.0)


async def test_the_groups_are_listed_when_a_broker_is_ready() -> None:
    async with FakeCluster(2) as brokers, new_admin(brokers) as admin:
        brokers.fault(ListGroupsRequest, times=2, node=2, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert await admin.groups() == []
        assert [len(brokers.seen_of(ListGroupsRequest, node)) for node in (1, 2)] == [1, 3]
        brokers.fault(ListGroupsRequest, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError, match="The groups of broker 1 could not be listed"):
            await admin.groups()


async def test_the_latest_offsets_are_the_default() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        fill(brokers.create_topic("t").partitions[0], 4)
        assert await admin.offsets("t") == {TopicPartition("t", 0): 4}


def test_the_errors_have_their_places() -> None:
    assert issubclass(errors.TopicExistsError, BrokerError)
    assert not issubclass(errors.TopicFailuresError, BrokerError)
