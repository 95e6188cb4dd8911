from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from aioprod.admin import Admin
from aioprod.config import SessionConfig
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    InvalidTopicError,
    MetadataTimeoutError,
    ProtocolError,
    RequestTimedOutError,
    TopicFailuresError,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, MetadataRequest
from aioprod.messages.create_topics import CreatableTopicConfig
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.sessions import FAST
from tests.support.stored_batches import fill

TOPIC = "orders"


def new_admin(brokers: FakeCluster, **options: Any) -> Admin:
    return Admin(brokers.bootstrap, **{**FAST, **options})


def rejecting(code: ErrorCode | int, said: str | None = None) -> Callable[[CreateTopicsResponse], CreateTopicsResponse]:
    """Edits a response to CreateTopics into an error."""

    def edit(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        return replace(answer, topics=(replace(answer.topics[0], error_code=code, error_message=said),))

    return edit


# --- topics


@pytest.mark.parametrize("given", [{}, {"partitions": 3}, {"replication_factor": 1}])
async def test_brokers_before_2_4_choose_no_numbers(given: dict[str, Any]) -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers[1].versions[CreateTopicsRequest] = (2, 3)
        await brokers.restart(1)
        with pytest.raises(
            UnsupportedVersionError, match="'orders' could not be created: the broker chooses"
        ) as caught:
            await admin.create_topic(TOPIC, **given)
        assert "brokers from 2.4 on" in (caught.value.hint or "")
        assert not brokers.seen_of(CreateTopicsRequest)
        await admin.create_topic(TOPIC, partitions=3, replication_factor=1)
        assert await admin.topics() == [TOPIC]


async def test_the_life_of_a_topic() -> None:
    async with FakeCluster(2) as brokers, new_admin(brokers) as admin:
        await admin.create_topic(TOPIC, partitions=3)
        await admin.create_topic("another")
        assert await admin.topics() == ["another", TOPIC]
        partitions = await admin.partitions(TOPIC)
        assert [info.partition for info in partitions] == [0, 1, 2]
        assert {info.leader.id for info in partitions if info.leader} == {1, 2}
        await admin.delete_topic(TOPIC)
        assert await admin.topics() == ["another"]
        with pytest.raises(UnknownTopicError, match="Topic 'orders' does not exist"):
            await admin.partitions(TOPIC)


async def test_the_create_topics_request() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        config = {"retention_ms": 5, "cleanup.policy": "compact", "preallocate": True}
        await admin.create_topic(TOPIC, partitions=2, replication_factor=1, config=config, timeout=12.5)
        await admin.create_topic("another")
        first, second = brokers.seen_of(CreateTopicsRequest)
        assert first.timeout_ms == 12_500
        (topic,) = first.topics
        assert (topic.name, topic.num_partitions, topic.replication_factor) == (TOPIC, 2, 1)
        assert topic.configs == (
            CreatableTopicConfig(name="retention.ms", value="5"),
            CreatableTopicConfig(name="cleanup.policy", value="compact"),
            CreatableTopicConfig(name="preallocate", value="true"),
        )
        (topic,) = second.topics
        assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, ())


async def test_a_new_topic_is_waited_for() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers.fault(MetadataRequest, times=6, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        brokers.fault(MetadataRequest, times=2, error=ErrorCode.LEADER_NOT_AVAILABLE)
        await admin.create_topic(TOPIC)
        brokers.fault(MetadataRequest, times=None, error=ErrorCode.LEADER_NOT_AVAILABLE)
        with pytest.raises(MetadataTimeoutError, match="No broker could name the leaders of topic 'another'"):
            await admin.create_topic("another", timeout=2.0)
        assert "another" in brokers.state.topics


@pytest.mark.parametrize(("versions", "kind"), [((1, 5), DeleteTopicsRequest), ((2, 4), CreateTopicsRequest)])
async def test_old_brokers(versions: tuple[int, int], kind: Any) -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers[1].versions[kind] = versions
        await admin.create_topic(TOPIC)
        await admin.delete_topic(TOPIC)
        assert not brokers.state.topics


async def test_internal_topics_are_named_on_demand() -> None:
    def internal(answer: Any) -> Any:
        return replace(answer, topics=tuple(replace(topic, is_internal=topic.name == "b") for topic in answer.topics))

    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        for name in "abc":
            brokers.create_topic(name)
        brokers.fault(MetadataRequest, times=None, edit=internal)
        assert await admin.topics() == ["a", "c"]
        assert await admin.topics(internal=True) == ["a", "b", "c"]
        assert list(await admin.describe_topics()) == ["a", "c"]
        assert list(await admin.describe_topics(internal=True)) == ["a", "b", "c"]


async def test_all_topics_are_described_by_one_request() -> None:
    async with FakeCluster(3) as brokers, new_admin(brokers) as admin:
        for name in "ab":
            brokers.create_topic(name, partitions=2)
        brokers.state.topics["a"].partitions[1].leader = None
        before = len(brokers.seen_of(MetadataRequest))
        described = await admin.describe_topics()
        assert len(brokers.seen_of(MetadataRequest)) == before + 1
        assert {name: [info.partition for info in partitions] for name, partitions in described.items()} == {
            "a": [0, 1],
            "b": [0, 1],
        }
        assert described["a"][1].leader is None
        assert described["b"] == tuple(await admin.partitions("b"))
        assert await admin.describe_topics(["b"]) == await admin.describe_topics("b") == {"b": described["b"]}
        with pytest.raises(UnknownTopicError, match="Topic 'c' does not exist"):
            await admin.describe_topics(["c"])
        with pytest.raises(TopicFailuresError, match=r"2 of 3 topics were not described. Topic 'c' .* Topic 'd' "):
            await admin.describe_topics(["c", "b", "d"])


# --- offsets


async def test_offsets() -> None:
    async with FakeCluster(2) as brokers, new_admin(brokers) as admin:
        for index, partition in enumerate(brokers.create_topic(TOPIC, 2).partitions):
            fill(partition, 10 * index)
        first, second = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
        assert await admin.offsets(TOPIC, "earliest") == {first: 0, second: 0}
        assert await admin.offsets(TOPIC, "latest") == {first: 0, second: 10}
        assert await admin.offsets(TOPIC, 1004) == {first: 0, second: 4}
        at = datetime.datetime.fromtimestamp(99, datetime.UTC)
        assert await admin.offsets(TOPIC, at) == {first: 0, second: 10}
        with pytest.raises(ConfigError, match="at is 'now'"):
            await admin.offsets(TOPIC, "now")  # type: ignore[arg-type]
        with pytest.raises(UnknownTopicError):
            await admin.offsets("nothing", "latest")


# --- errors


@pytest.mark.parametrize(
    ("code", "said", "kind", "text"),
    [
        (ErrorCode.INVALID_CONFIG, "Bad value.", BrokerError, "Topic 'orders' could not be created: Bad value."),
        (9999, None, BrokerError, "Topic 'orders' could not be created: the broker answered error 9999."),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, AuthorizationError, "TOPIC_AUTHORIZATION_FAILED"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "No.", InvalidTopicError, "could not be created: No."),
    ],
)
async def test_errors_of_brokers(code: ErrorCode | int, said: str, kind: type[AioprodError], text: str) -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers.fault(CreateTopicsRequest, edit=rejecting(code, said))
        with pytest.raises(kind, match=text) as failure:
            await admin.create_topic(TOPIC)
        assert len(brokers.seen_of(CreateTopicsRequest)) == 1
        if isinstance(failure.value, BrokerError):
            assert failure.value.code == code
            assert failure.value.hint is None


async def test_topics_that_are_there_already_or_not_at_all() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topic(TOPIC)
        with pytest.raises(BrokerError, match=r"Topic 'orders' could not be created: .* already exists") as failure:
            await admin.create_topic(TOPIC)
        assert failure.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(UnknownTopicError, match="Topic 'nothing' could not be deleted"):
            await admin.delete_topic("nothing")
        calls: list[Callable[[str], Awaitable[object]]] = [
            admin.create_topic,
            admin.delete_topic,
            admin.partitions,
            lambda name: admin.offsets(name, "latest"),
        ]
        for call in calls:
            with pytest.raises(InvalidTopicError, match="other characters"):
                await call("no topic")


async def test_a_response_without_the_topic() -> None:
    def nothing(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        return replace(answer, topics=(replace(answer.topics[0], name="other"),))

    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers.fault(CreateTopicsRequest, edit=nothing)
        with pytest.raises(ProtocolError, match="does not contain topic 'orders'"):
            await admin.create_topic(TOPIC)


# --- tries


async def test_what_may_pass_is_tried_again() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers.fault(CreateTopicsRequest, drop="before")
        for code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            brokers.fault(CreateTopicsRequest, edit=rejecting(code), times=1)
            brokers.state.topics.clear()
        with pytest.raises(BrokerError, match="already exists") as failure:
            await admin.create_topic(TOPIC)
        assert failure.value.hint == (
            "An earlier try of this call had no clear response: it may have done what the broker rejected now."
        )
        assert isinstance(failure.value.__cause__, BrokerError)
        brokers.fault(MetadataRequest, drop="before")
        assert await admin.topics() == [TOPIC]


async def test_the_controller_gets_the_request_where_brokers_do_not_forward() -> None:
    async with FakeCluster(3) as brokers:
        host, port = brokers[2].address
        async with Admin(f"{host}:{port}", **FAST) as admin:
            brokers.fault(CreateTopicsRequest, node=2, times=None, edit=rejecting(ErrorCode.NOT_CONTROLLER))
            # These brokers answer with the error after they have done it, which makes no difference here.
            with pytest.raises(BrokerError, match="already exists") as failure:
                await admin.create_topic(TOPIC)
            assert failure.value.hint is None
            assert [len(brokers.seen_of(CreateTopicsRequest, node)) for node in (1, 2, 3)] == [1, 1, 0]


async def test_an_unknown_controller() -> None:
    def unknown(answer: Any) -> Any:
        return replace(answer, controller_id=-1)

    async with FakeCluster() as brokers:
        brokers.fault(MetadataRequest, times=None, edit=unknown)
        async with new_admin(brokers) as admin:
            brokers.fault(CreateTopicsRequest, edit=rejecting(ErrorCode.NOT_CONTROLLER))
            with pytest.raises(BrokerError, match="already exists"):
                await admin.create_topic(TOPIC)


async def test_tries_have_an_end() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        brokers.fault(CreateTopicsRequest, times=3, edit=rejecting(ErrorCode.REQUEST_TIMED_OUT, "Busy."))
        brokers.fault(CreateTopicsRequest, times=None, silent=True)
        with pytest.raises(RequestTimedOutError, match=r"^Topic 'orders' could not be created in time: Busy\."):
            await admin.create_topic(TOPIC, timeout=1.0)
        with pytest.raises(RequestTimedOutError, match=r"^Topic 'orders' could not be deleted in time\.$"):
            await admin.delete_topic(TOPIC, timeout=0.0)


async def test_it_is_used_while_it_is_open() -> None:
    async with FakeCluster() as brokers:
        admin = new_admin(brokers)
        with pytest.raises(UsageError, match="This admin client is not started"):
            await admin.topics()
        before = asyncio.all_tasks()
        async with admin:
            assert await admin.topics() == []
        assert not [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)]
        with pytest.raises(UsageError, match="This admin client is closed"):
            await admin.topics()


def test_its_settings() -> None:
    config = SessionConfig(bootstrap_servers=("h:1",), client_id="me")
    assert Admin(config=config, default_api_timeout_ms=5).config == config.replace(default_api_timeout_ms=5)
    with pytest.raises(ConfigError, match="'linger_ms' is not a setting"):
        Admin("h:1", linger_ms=5)  # type: ignore[call-arg]
