"""What docs/migrating-aiokafka.md says of consumers: of their calls and options, and of both in one group."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterable
from typing import Any, Final

import aiokafka
import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from aioprod import Member, Producer, TopicPartition
from aioprod.compat import aiokafka as compat
from aioprod.config import settings_of
from aioprod.errors import BrokerError, ConfigError, SerializationError, UsageError
from aioprod.group import MemberConfig
from aioprod.options import AssignorName
from aioprod.testing import FakeCluster
from tests.compat.test_page import PAGE, rows

PATIENCE_S: Final = 30.0
P0: Final = TopicPartition("t", 0)
OPTIONS: Final = {
    name: option.default
    for name, option in inspect.signature(AIOKafkaConsumer.__init__).parameters.items()
    if name not in ("self", "topics")
}


def test_each_call_of_the_consumer_has_a_row() -> None:
    left = "".join(row[0] for row in rows("| `AIOKafkaConsumer` |"))
    calls = {name for name, _ in inspect.getmembers(AIOKafkaConsumer, callable) if not name.startswith("_")}
    assert {name for name in calls if f"{name}(" not in left} == set()


def test_what_stands_in_place_of_a_call_is_there() -> None:
    for row in rows("| `AIOKafkaConsumer` |"):
        for call in re.findall(r"(?<![.\w-])(?:await )?(?:member\.)?([a-z_]+)\(", row[1]):
            assert call in ("anext", "partitions", "topics", "header") or hasattr(Member, call), row


def test_each_option_of_the_consumer_has_a_row() -> None:
    assert [option for option, _ in rows("| option of `AIOKafkaConsumer` |")] == [f"`{name}`" for name in OPTIONS]


def test_defaults_are_the_same_where_the_page_names_no_other() -> None:
    settings = settings_of(MemberConfig)
    same = [option.strip("`") for option, said in rows("| option of `AIOKafkaConsumer` |") if said == "same"]
    compared = {name: (settings[name].default, OPTIONS[name]) for name in same if name in settings}
    compared.pop("check_crcs")
    assert len(compared) > 10
    assert {name: both for name, both in compared.items() if both[0] != both[1]} == {}


def test_an_option_that_is_not_here_is_an_error_with_the_way_out() -> None:
    said = {option.strip("`"): words for option, words in rows("| option of `AIOKafkaConsumer` |")}
    others = {name for name, words in said.items() if not words.startswith(("same", "different: "))}
    assert len(others) > 7
    for name in others - {"partition_assignment_strategy"}:
        given: dict[str, Any] = {name: 1}
        with pytest.raises(ConfigError, match=r"Hint: |tickets are obtained"):
            Member("a:1", group_id="g", topics="t", **given)


@pytest.mark.parametrize("name", sorted(set(aiokafka.__all__) - set(compat.__all__)))
def test_other_names_of_aiokafka_say_where_they_are(name: str) -> None:
    with pytest.raises(ImportError, match=rf"{name}.*under Consumers\."):
        getattr(compat, name)
    assert "\n## Consumers\n" in PAGE


# --- what is different


async def with_records(cluster: FakeCluster, *values: bytes, partitions: int = 1) -> FakeCluster:
    cluster.create_topic("t", partitions)
    async with Producer(cluster.bootstrap) as producer:
        (await producer.send_many("t", list(values))).raise_for_failures()
    return cluster


def consumer_of(cluster: FakeCluster, *topics: str, **options: Any) -> AIOKafkaConsumer:
    """A consumer of aiokafka's in group "g", which begins at the start."""
    given = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, **options}
    return AIOKafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap, **given)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Counts its calls; the first one fails."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.calls.append("revoked")
        raise ValueError

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.calls.append("assigned")


async def test_stop_commits_what_is_in_hand_and_calls_no_listener() -> None:
    async with FakeCluster() as cluster, asyncio.timeout(PATIENCE_S):
        await with_records(cluster, b"1", b"2")
        consumer, listener = consumer_of(cluster), Listener()
        consumer.subscribe(["t"], listener=listener)
        await consumer.start()
        await consumer.getone()
        assert listener.calls == ["revoked", "assigned"]
        await consumer.stop()
        assert listener.calls == ["revoked", "assigned"]
        assert cluster.committed_offset("g", P0) == 1


async def test_a_list_may_be_empty_there() -> None:
    async with FakeCluster() as cluster, asyncio.timeout(PATIENCE_S):
        await with_records(cluster)
        async with consumer_of(cluster, "t") as consumer:
            assert await consumer.getmany() == {}


async def test_a_record_that_can_not_be_deserialized() -> None:
    def picky(value: bytes) -> int:
        return int(value)

    async with FakeCluster() as cluster, asyncio.timeout(PATIENCE_S):
        await with_records(cluster, b"x", b"2")
        async with consumer_of(cluster, "t", value_deserializer=picky, key_deserializer=repr) as theirs:
            for _ in range(3):
                with pytest.raises(ValueError, match="invalid literal"):
                    await theirs.getone()
            theirs.seek(aiokafka.TopicPartition("t", 0), 1)
            assert (await theirs.getone()).key == "None"
        options: Any = {"auto_offset_reset": "earliest", "value_deserializer": picky, "key_deserializer": repr}
        async with Member(cluster.bootstrap, group_id="h", topics="t", **options) as ours:
            with pytest.raises(SerializationError) as caught:
                await anext(ours)
            with pytest.raises(UsageError, match="polled once more"):
                await anext(ours)
            ours.skip(caught.value)
            assert (await anext(ours)).key is None


async def test_both_share_a_group_by_an_assignor_that_they_have() -> None:
    async with FakeCluster() as cluster, asyncio.timeout(PATIENCE_S):
        await with_records(cluster, partitions=4)
        assignors: tuple[AssignorName, ...] = ("cooperative-sticky", "range", "roundrobin")
        async with (
            consumer_of(cluster, "t") as theirs,
            Member(cluster.bootstrap, group_id="g", topics="t", assignors=assignors, heartbeat_interval_ms=100) as ours,
        ):
            polls = [asyncio.ensure_future(theirs.getone()), asyncio.ensure_future(anext(ours))]
            while [len(theirs.assignment()), len(ours.assignment)] != [2, 2]:
                await asyncio.sleep(0.01)
            polls[0].cancel()
            await theirs.stop()
            while len(ours.assignment) < 4:
                await asyncio.sleep(0.01)
            assert "owns 4 partitions" in ours.explain()
            polls[1].cancel()
            await asyncio.wait(polls)


async def test_the_defaults_of_both_have_no_assignor_in_common() -> None:
    async with FakeCluster() as cluster, asyncio.timeout(PATIENCE_S):
        await with_records(cluster)
        async with consumer_of(cluster, "t"), Member(cluster.bootstrap, group_id="g", topics="t") as ours:
            with pytest.raises(BrokerError, match="its members share no assignor"):
                await anext(ours)
