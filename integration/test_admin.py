"""`Admin` with a real broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal

import pytest

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin, GroupDescription, OffsetChange
from aioprod.errors import (
    BrokerError,
    ErrorCode,
    GroupFailuresError,
    TopicExistsError,
    TopicFailuresError,
    UnknownTopicError,
)
from aioprod.group import Member
from aioprod.testing import KafkaCluster
from aioprod.types import OffsetAndMetadata


async def test_the_life_of_a_topic(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        await admin.create_topic(unused_topic, partitions=3, config={"retention_ms": 3600_000, "preallocate": False})
        partitions = await admin.partitions(unused_topic)
        assert [info.partition for info in partitions] == [0, 1, 2]
        assert all(info.leader is not None for info in partitions)
        assert unused_topic in await admin.topics()
        with pytest.raises(BrokerError, match=r"could not be created: .*already exists") as failure:
            await admin.create_topic(unused_topic)
        assert failure.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        now_ms = int(time.time() * 1000)
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            await producer.send_many(unused_topic, [b"v"] * 10, partition=1, timestamps=now_ms)
        assert await admin.offsets(unused_topic, "latest") == {
            TopicPartition(unused_topic, index): 10 if index == 1 else 0 for index in range(3)
        }
        assert set((await admin.offsets(unused_topic, "earliest")).values()) == {0}
        assert set((await admin.offsets(unused_topic, now_ms)).values()) == {0}
        await admin.delete_topic(unused_topic)
        with pytest.raises(UnknownTopicError):
            await admin.delete_topic(unused_topic)
        await until_gone(admin, unused_topic)


async def until_gone(admin: Admin, topic: str) -> None:
    """Wait until the brokers have heard of a deletion: the controller knows it first."""
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.partitions(topic)
            except UnknownTopicError:
                return
            await asyncio.sleep(0.05)


async def test_what_brokers_refuse(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        refused: list[tuple[ErrorCode, Callable[[], object]]] = [
            (ErrorCode.INVALID_REPLICATION_FACTOR, lambda: admin.create_topic(unused_topic, replication_factor=9)),
            (ErrorCode.INVALID_PARTITIONS, lambda: admin.create_topic(unused_topic, partitions=0)),
            (ErrorCode.INVALID_CONFIG, lambda: admin.create_topic(unused_topic, config={"retention.ms": "long"})),
        ]
        for code, call in refused:
            with pytest.raises(BrokerError, match=f"Topic '{unused_topic}' could not be created: ") as failure:
                await call()  # type: ignore[misc]
            assert failure.value.code == code


async def test_several_topics_and_topics_that_grow(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    names = [f"{unused_topic}-{index}" for index in range(3)]
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        await admin.create_topics({names[0]: 1, names[1]: 2})
        with pytest.raises(TopicFailuresError) as failure:
            await admin.create_topics(names)
        assert failure.value.failures.keys() == set(names[:2])
        assert {type(error) for error in failure.value.failures.values()} == {TopicExistsError}
        await admin.create_topics(names, exists_ok=True)
        await admin.create_partitions(names[0], 4)
        assert len(await admin.partitions(names[0])) == 4
        with pytest.raises(BrokerError, match="could not get more partitions: ") as refused:
            await admin.create_partitions(names[0], 3)
        assert refused.value.code == ErrorCode.INVALID_PARTITIONS
        await admin.delete_topics([*names, unused_topic], missing_ok=True)
        with pytest.raises(UnknownTopicError, match="there is no such topic"):
            await admin.delete_topic(names[0])
        with pytest.raises(UnknownTopicError, match="there is no such topic"):
            await admin.create_partitions(names[0], 3)


async def test_the_cluster_and_its_groups(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    group = f"of-{unused_topic}"
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        cluster = await admin.describe_cluster()
        assert cluster.cluster_id == admin.cluster_id
        assert cluster.controller in cluster.nodes
        assert await admin.group_offsets(group) == {}
        await admin.create_topic(unused_topic)
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            await producer.send_many(unused_topic, [b"v"] * 3)
        async with Member(
            kafka_cluster.bootstrap_servers, group_id=group, topics=unused_topic, auto_offset_reset="earliest"
        ) as member:
            async with asyncio.timeout(60):
                await anext(member)
            await member.commit()
            await stable_group(admin, group)
            (known,) = [one for one in await admin.groups() if one.group_id == group]
            assert known[1:] == ("Stable", "classic", "consumer")
        tp = TopicPartition(unused_topic, 0)
        assert await admin.group_offsets(group) == {tp: OffsetAndMetadata(1)}
        assert await admin.group_lag(group) == {tp: 2}


async def test_settings_sizes_and_records(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    partition = TopicPartition(unused_topic, 0)
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        await admin.create_topic(unused_topic, partitions=1, config={"retention_ms": 3600_000})
        before = await admin.describe_configs("topic", unused_topic)
        assert (before["retention.ms"].value, before["retention.ms"].source) == ("3600000", "dynamic_topic")
        assert before["cleanup.policy"].is_default
        await admin.alter_configs(
            "topic",
            unused_topic,
            {"segment.bytes": 2_000_000},
            reset=["retention.ms"],
            append={"cleanup.policy": "compact"},
        )
        async with asyncio.timeout(60):
            # The broker that answers may hear of it later than the controller.
            while (changed := await admin.describe_configs("topic", unused_topic))["segment.bytes"].is_default:
                await asyncio.sleep(0.05)
        assert changed["segment.bytes"].value == "2000000"
        assert changed["cleanup.policy"].value == "delete,compact"
        assert changed["retention.ms"].value != "3600000"
        with pytest.raises(BrokerError) as invalid:
            await admin.alter_configs("topic", unused_topic, {"retention.ms": "long"}, validate_only=True)
        assert invalid.value.code == ErrorCode.INVALID_CONFIG
        await admin.alter_configs("topic", unused_topic, reset=["cleanup.policy"])
        (node,) = {node.id for node in (await admin.describe_cluster()).nodes}
        broker = await admin.describe_configs("broker", str(node))
        assert int(broker["num.partitions"].value or 0) >= 1
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            (await producer.send_many(unused_topic, [b"v" * 100] * 10, partition=0)).raise_for_failures()
        sizes = await admin.topic_sizes([unused_topic])
        assert sizes[partition][node] > 1000
        assert all(folder.error is None for folders in (await admin.log_dirs()).values() for folder in folders)
        assert await admin.delete_records({partition: 4}) == {partition: 4}
        assert await admin.offsets(unused_topic, "earliest") == {partition: 4}
        assert await admin.delete_records({partition: -1}) == {partition: 10}
        with pytest.raises(BrokerError) as beyond:
            await admin.delete_records({partition: 99})
        assert beyond.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(UnknownTopicError):
            await admin.describe_configs("topic", f"{unused_topic}-not")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_offsets_are_reset_and_deleted(
    kafka_cluster: KafkaCluster, unused_topic: str, protocol: Literal["classic", "consumer"]
) -> None:
    group = f"of-{unused_topic}"
    first, second = (TopicPartition(unused_topic, index) for index in (0, 1))
    now_ms = int(time.time() * 1000)
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        await admin.create_topic(unused_topic, partitions=2)
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            for at in (now_ms - 2000, now_ms):
                await producer.send_many(unused_topic, [b"v"] * 5, partition=0, timestamps=at)
        async with Member(
            kafka_cluster.bootstrap_servers,
            group_id=group,
            topics=unused_topic,
            auto_offset_reset="earliest",
            group_protocol=protocol,
        ) as member:
            async with asyncio.timeout(60):
                await anext(member)
            await member.commit({first: 1})
            for call in (
                lambda: admin.reset_offsets(group, "latest"),
                lambda: admin.delete_offsets(group, first),
                lambda: admin.delete_groups(group),
            ):
                with pytest.raises(BrokerError) as in_use:
                    await call()
                assert in_use.value.code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        assert await admin.group_offsets(group) == {first: OffsetAndMetadata(1)}
        assert await admin.reset_offsets(group, "latest", dry_run=True) == {first: OffsetChange(1, 10)}
        assert await admin.reset_offsets(group, now_ms - 1000) == {first: OffsetChange(1, 5)}
        assert await admin.reset_offsets(group, shift_by=-2) == {first: OffsetChange(5, 3)}
        assert await admin.reset_offsets(group, {first: 10, second: 0}) == {
            first: OffsetChange(3, 10),
            second: OffsetChange(None, 0),
        }
        with pytest.raises(BrokerError, match="begins at 0 and ends at 10") as outside:
            await admin.reset_offsets(group, {first: 11})
        assert outside.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        await admin.delete_offsets(group, first)
        assert await admin.group_offsets(group) == {second: OffsetAndMetadata(0)}
        with pytest.raises(GroupFailuresError) as failures:
            await admin.delete_groups(group, f"{group}-not")
        assert failures.value.failures.keys() == {f"{group}-not"}
        assert group not in [one.group_id for one in await admin.groups()]


async def stable_group(admin: Admin, group_id: str) -> GroupDescription:
    """The group once it is stable and its only member has partitions: a coordinator may assign in several steps."""
    async with asyncio.timeout(60):
        while True:
            group = (await admin.describe_groups([group_id]))[group_id]
            if group.state == "Stable" and group.members[0].partitions:
                return group
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_the_members_of_a_group(
    kafka_cluster: KafkaCluster, unused_topic: str, protocol: Literal["classic", "consumer"]
) -> None:
    group_id = f"{unused_topic}-{protocol}"
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        await admin.create_topic(unused_topic, partitions=2)
        assigned = asyncio.Event()
        async with Member(
            kafka_cluster.bootstrap_servers,
            group_id=group_id,
            topics=[unused_topic],
            client_id="worker",
            group_protocol=protocol,
            on_assigned=lambda partitions: assigned.set(),
        ):
            await asyncio.wait_for(assigned.wait(), 60)
            group = await stable_group(admin, group_id)
        assert (group.state, group.type, group.protocol_type) == ("Stable", protocol, "consumer")
        (member,) = group.members
        assert member.client_id == "worker"
        assert member.partitions == (TopicPartition(unused_topic, 0), TopicPartition(unused_topic, 1))
        assert group.coordinator is not None
        with pytest.raises(BrokerError, match="does not exist") as missing:
            await admin.describe_groups([f"{group_id}-not"])
        assert missing.value.code == ErrorCode.GROUP_ID_NOT_FOUND
