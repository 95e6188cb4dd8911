"""How a member may be used, and what it says of other ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from aioprod.errors import AioprodError, ConfigError, UsageError
from aioprod.group import Member, MemberConfig
from aioprod.group.classic.membership import ClassicMembership
from aioprod.testing import FakeCluster
from aioprod.types import OffsetAndMetadata, TopicPartition
from tests.group.test_member import new_member
from tests.support.stored_batches import fill

P0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group_id": "\ud800"}, "give the group a name"),
        ({"group_id": "g" * 32_768}, "give the group a name"),
        ({"topics": None}, "topics is None"),
        ({"assignors": 5}, r"partition\.assignment\.strategy must be"),
        (
            {"assignors": ["range"], "group_protocol": "consumer"},
            r"partition\.assignment\.strategy \(assignors\) can't be set with group\.protocol=consumer",
        ),
        ({"group_instance_id": "a b"}, r"group\.instance\.id is 'a b'"),
        ({"group_instance_id": "i" * 250}, r"group\.instance\.id is 'iii"),
        ({"on_assigned": 5}, "on_assigned is 5"),
        ({"on_lost": "f"}, "on_lost is 'f'"),
    ],
)
def test_invalid_arguments_raise_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Member("localhost:9092", **{"group_id": "g", "topics": "t", **options})


@pytest.mark.parametrize(
    "offsets",
    [
        5,
        [(P0, 1)],
        {"to": 3},
        {("t", "0"): 3},
        {("t", -1): 3},
        {("t", 2**31): 3},
        {("t", True): 3},
        {("no topic", 0): 3},
        {P0: -1},
        {P0: 2**63},
        {P0: "3"},
        {P0: True},
        {P0: OffsetAndMetadata(1, 5)},  # type: ignore[arg-type]
        {P0: OffsetAndMetadata(1, "\ud800")},
    ],
)
async def test_invalid_offsets_raise(offsets: Any) -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("t", 1)
        async with new_member(brokers) as member:
            with pytest.raises(AioprodError, match=r"offsets|topic|Topic"):
                await member.commit(offsets)


async def test_seek_checks_its_offset() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("t", 1)
        async with new_member(brokers) as member:
            with pytest.raises(ConfigError, match="give a TopicPartition"):
                member.seek("t", 5)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="does not own partition 3 of topic 't'"):
                member.seek(TopicPartition("t", 3), 5)


def run_elsewhere(call: Callable[[], Coroutine[Any, Any, object]]) -> None:
    asyncio.run(call())


async def test_another_event_loop_is_an_error() -> None:
    async with FakeCluster() as brokers:
        fill(brokers.create_topic("t", 1).partitions[0], 3)
        async with new_member(brokers) as member:
            for call in (member.close, member.__anext__, member.commit):
                with pytest.raises(UsageError, match="another event loop"):
                    await asyncio.to_thread(run_elsewhere, call)
            assert (await anext(member)).offset == 0


async def test_the_time_of_the_work_begins_with_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with the wait for it."""
    noted: list[float] = []
    monkeypatch.setattr(ClassicMembership, "polled", lambda self, now: noted.append(now))
    async with FakeCluster() as brokers:
        topic = brokers.create_topic("t", 1)
        async with new_member(brokers) as member:
            waiting = asyncio.create_task(anext(member))
            await asyncio.sleep(0.15)
            filled_at = asyncio.get_running_loop().time()
            fill(topic.partitions[0], 1)
            await waiting
            assert noted[-1] >= filled_at


async def test_a_member_of_a_java_file_and_of_a_librdkafka_dict(tmp_path: Path) -> None:
    async with FakeCluster() as brokers:
        fill(brokers.create_topic("t").partitions[0], 2)
        path = tmp_path / "consumer.properties"
        path.write_text(
            f"bootstrap.servers={brokers.bootstrap}\ngroup.id=java\nauto.offset.reset=earliest\n"
            "enable.auto.commit=true\nisolation.level=read_committed\nmax.poll.records=1\nfetch.max.wait.ms=20\n"
            "value.deserializer=org.apache.kafka.common.serialization.StringDeserializer\n"
            "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor\n"
        )
        dictionary = {
            "bootstrap.servers": brokers.bootstrap,
            "group.id": "librdkafka",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "queued.min.messages": 1,
            "statistics.interval.ms": 0,
        }
        values = []
        configs: list[Any] = [MemberConfig.from_properties(path), dictionary]
        for config in configs:
            async with asyncio.timeout(20), Member(topics="t", config=config) as member:
                values.append((await anext(member)).value)
                await anext(member)
                await member.commit()
        assert [type(value) for value in values] == [str, bytes]
        assert brokers.state.groups.keys() >= {"java", "librdkafka"}
