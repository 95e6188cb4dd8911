"""Members whose topics are said by a pattern."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from aioprod.errors import ConfigError, ErrorCode
from aioprod.group import Member
from aioprod.group.subscription_codec import decode_subscription
from aioprod.messages import JoinGroupRequest, MetadataRequest, MetadataResponse
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.group.test_member import PATIENCE_S, CallbackLog, reading
from tests.support.sessions import FAST
from tests.support.stored_batches import fill

PROTOCOLS = ("classic", "consumer")
ORDERS = re.compile("orders-.*")


def new_member(brokers: FakeCluster, protocol: str, **options: Any) -> Member:
    """One of group "g", which reads topics of orders."""
    brokers.state.groups.settings.heartbeat_interval_s = 0.02
    own: dict[str, Any] = {"heartbeat_interval_ms": 20} if protocol == "classic" else {}
    quick = {**FAST, **own, "fetch_max_wait_ms": 20, "metadata_max_age_ms": 50, "auto_offset_reset": "earliest"}
    return Member(
        brokers.bootstrap, **{"group_id": "g", "topics": ORDERS, "group_protocol": protocol, **quick, **options}
    )


def create(brokers: FakeCluster, *names: str) -> None:
    for name in names:
        fill(brokers.create_topic(name).partitions[0], 2)


async def assigned(member: Member, *topics: str) -> None:
    """Wait until it owns the only partition of each of these topics."""
    async with asyncio.timeout(PATIENCE_S):
        while member.assignment != {TopicPartition(topic, 0) for topic in topics}:
            await asyncio.sleep(0.005)


def topics_joined_with(brokers: FakeCluster) -> int:
    return len({request.protocols for request in brokers.seen_of(JoinGroupRequest)})


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_topics_that_match_are_read_as_they_come_and_go(protocol: str) -> None:
    async with FakeCluster() as brokers:
        create(brokers, "orders-a", "my-orders-b", "clicks")
        log = CallbackLog()
        async with new_member(brokers, protocol, **log.callbacks) as member, reading(member):
            await assigned(member, "orders-a")
            create(brokers, "orders-c")
            await assigned(member, "orders-a", "orders-c")
            del brokers.topics["orders-a"]
            await assigned(member, "orders-c")
            del brokers.topics["orders-c"]
            await assigned(member)
            create(brokers, "orders-d")
            await assigned(member, "orders-d")


async def test_it_joins_once_with_what_there_is() -> None:
    async with FakeCluster() as brokers:
        create(brokers, "orders-a", "orders-b")
        async with new_member(brokers, "classic") as member, reading(member):
            await assigned(member, "orders-a", "orders-b")
        assert topics_joined_with(brokers) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_without_a_match_it_waits_for_a_topic(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as brokers:
        log = CallbackLog()
        async with new_member(brokers, protocol, **log.callbacks) as member, reading(member):
            await log.until("assigned")
            line = "Member of group 'g' finds no topic that matches 'orders-.*'; it looks again in 0.05 s"
            assert line in caplog.messages
            create(brokers, "orders-a")
            await assigned(member, "orders-a")


@pytest.mark.parametrize(("excludes", "names"), [(True, ["mine"]), (False, ["__offsets", "mine"])])
async def test_topics_of_kafka_itself(excludes: bool, names: Iterable[str]) -> None:
    def internal(answer: Any) -> Any:
        rows = (replace(topic, is_internal=topic.name.startswith("__")) for topic in answer.topics)
        return replace(answer, topics=tuple(rows))

    async with FakeCluster() as brokers:
        create(brokers, "mine", "__offsets")
        brokers.fault(MetadataRequest, times=None, edit=internal)
        options = {"topics": re.compile(".*"), "exclude_internal_topics": excludes}
        async with new_member(brokers, "classic", **options) as member, reading(member):
            await assigned(member, *names)


async def test_names_replace_a_pattern_and_back() -> None:
    async with FakeCluster() as brokers:
        create(brokers, "orders-a", "clicks", "views")
        async with new_member(brokers, "classic", topics="views") as member, reading(member):
            await assigned(member, "views")
            member.subscribe(ORDERS)
            await assigned(member, "orders-a")
            member.subscribe(re.compile("orders-.*|clicks"))
            await assigned(member, "orders-a", "clicks")
            member.subscribe(["views"])
            await assigned(member, "views")
            create(brokers, "orders-b")
            requests = len(brokers.seen_of(MetadataRequest))
            async with asyncio.timeout(PATIENCE_S):
                while len(brokers.seen_of(MetadataRequest)) < requests + 2:
                    await asyncio.sleep(0.005)
            assert member.assignment == {TopicPartition("views", 0)}


async def test_topics_that_are_named_at_once_win_over_the_pattern() -> None:
    async with FakeCluster() as brokers:
        create(brokers, "orders-a", "clicks")
        member = new_member(brokers, "classic")
        await member.start()
        member.subscribe("clicks")
        async with reading(member):
            await assigned(member, "clicks")
        await member.close()


async def test_brokers_that_do_not_say_which_topics_there_are() -> None:
    async with FakeCluster() as brokers:
        create(brokers, "orders-a")
        async with new_member(brokers, "classic") as member, reading(member):
            await assigned(member, "orders-a")
            member._session.timeout_s = 0.05
            brokers.fault(MetadataRequest, times=20, error=ErrorCode.UNKNOWN_SERVER_ERROR)
            create(brokers, "orders-b")
            await assigned(member, "orders-a", "orders-b")


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, 9999])
async def test_a_code_that_does_not_say_what_is_wrong_is_tried_again(code: int) -> None:
    async with FakeCluster() as brokers:
        create(brokers, "orders-a")
        async with new_member(brokers, "classic") as member, reading(member):
            await assigned(member, "orders-a")
            fault = brokers.fault(MetadataRequest, times=5, edit=lambda answer: replace(answer, error_code=code))
            create(brokers, "orders-b")
            await assigned(member, "orders-a", "orders-b")
            assert fault.hits == 5


async def test_names_that_no_topic_can_have_do_not_match() -> None:
    def edit(answer: MetadataResponse) -> MetadataResponse:
        wrong = [replace(one, name="orders-\x1b[2J\nERROR") for one in answer.topics]
        return replace(answer, topics=(*answer.topics, *wrong))

    async with FakeCluster() as brokers:
        create(brokers, "orders-a")
        brokers.fault(MetadataRequest, times=None, edit=edit)
        async with new_member(brokers, "classic", topics=re.compile("orders-.*", re.DOTALL)) as member, reading(member):
            await assigned(member, "orders-a")
        joined = [decode_subscription(one.protocols[0].metadata) for one in brokers.seen_of(JoinGroupRequest)]
        assert {one.topics for one in joined} == {("orders-a",)}


async def test_it_is_closed_while_it_looks_for_topics() -> None:
    async with FakeCluster() as brokers:
        member = new_member(brokers, "classic")
        await member.start()
        held = brokers.fault(MetadataRequest, hold=True)
        async with asyncio.timeout(PATIENCE_S):
            await held.reached.wait()
            await member.close()
        held.release()
        with pytest.raises(StopAsyncIteration):
            await anext(member)
        assert brokers.seen_of(JoinGroupRequest) == []


def test_a_pattern_of_bytes_is_an_error() -> None:
    with pytest.raises(ConfigError, match="matches bytes"):
        Member("h:1", group_id="g", topics=re.compile(b"orders"))  # type: ignore[arg-type]
