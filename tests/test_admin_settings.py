"""Settings, folders, records and the members of groups, with fake brokers."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from aioprod import Member, Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    RequestTimedOutError,
    UnknownTopicError,
    UsageError,
)
from aioprod.messages import (
    ConsumerGroupDescribeRequest,
    DeleteRecordsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    IncrementalAlterConfigsRequest,
)
from aioprod.testing import FakeCluster
from tests.support.sessions import FAST
from tests.support.stored_batches import fill


def new_admin(brokers: FakeCluster, **options: Any) -> Admin:
    return Admin(brokers.bootstrap, **{**FAST, **options})


# --- settings


async def test_settings_of_a_topic_and_where_they_come_from() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topic("a", config={"retention_ms": 5})
        found = await admin.describe_configs("topic", "a")
        assert list(found) == sorted(found)
        changed, default = found["retention.ms"], found["cleanup.policy"]
        assert (changed.value, changed.source, changed.is_default) == ("5", "dynamic_topic", False)
        assert (default.value, default.source, default.is_default) == ("delete", "default", True)


async def test_settings_of_a_broker_are_its_own() -> None:
    async with FakeCluster(brokers=2) as brokers, new_admin(brokers) as admin:
        found = await admin.describe_configs("broker", "2")
        assert found["log.dirs"].is_read_only
        with pytest.raises(UsageError, match="'two' is not a broker"):
            await admin.describe_configs("broker", "two")
        with pytest.raises(UsageError, match="'group' has no settings"):
            await admin.describe_configs("group", "g")  # type: ignore[arg-type]


async def test_some_settings_are_changed_and_the_others_left() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topic("a", config={"retention_ms": 5, "segment_bytes": 7})
        await admin.alter_configs("topic", "a", {"retention_ms": 9}, append={"cleanup.policy": "compact"})
        assert brokers.topics["a"].config == {
            "retention.ms": "9",
            "segment.bytes": "7",
            "cleanup.policy": "delete,compact",
        }
        await admin.alter_configs("topic", "a", reset="retention_ms", subtract={"cleanup.policy": "delete"})
        assert brokers.topics["a"].config == {"segment.bytes": "7", "cleanup.policy": "compact"}
        await admin.alter_configs("topic", "a", {"retention.ms": 1}, validate_only=True)
        assert "retention.ms" not in brokers.topics["a"].config


async def test_changes_that_can_not_be_made() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        await admin.create_topic("a")
        with pytest.raises(ConfigError, match=r"retention\.ms of topic 'a' is to be changed in two ways"):
            await admin.alter_configs("topic", "a", {"retention_ms": 1}, reset=["retention.ms"])
        with pytest.raises(ConfigError, match="No setting of topic 'a' is named"):
            await admin.alter_configs("topic", "a")
        assert brokers.seen_of(IncrementalAlterConfigsRequest) == []
        with pytest.raises(BrokerError, match="Unknown topic config name: retention") as unknown:
            await admin.alter_configs("topic", "a", {"retention": 1})
        assert unknown.value.code == ErrorCode.INVALID_CONFIG
        with pytest.raises(UnknownTopicError, match="The settings of topic 'b' could not be changed"):
            await admin.alter_configs("topic", "b", {"retention.ms": 1})
        with pytest.raises(UnknownTopicError, match="The settings of topic 'b' could not be described"):
            await admin.describe_configs("topic", "b")
        brokers.fault(IncrementalAlterConfigsRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError) as denied:
            await admin.alter_configs("topic", "a", {"retention.ms": 1})
        assert denied.value.operation == "ALTER_CONFIGS"


# --- folders and records


async def test_sizes_by_partition_and_broker() -> None:
    async with FakeCluster(brokers=2) as brokers, new_admin(brokers) as admin:
        brokers.create_topic("a", partitions=2)
        brokers.create_topic("b")
        fill(brokers.topics["a"].partitions[0], 3)
        folders = await admin.log_dirs()
        assert set(folders) == {1, 2}
        (folder,) = folders[1]
        assert folder.error is None
        assert folder.total_bytes is not None
        sizes = await admin.topic_sizes(["a"])
        assert list(sizes) == [TopicPartition("a", 0), TopicPartition("a", 1)]
        led = brokers.topics["a"].partitions
        assert sizes[TopicPartition("a", 0)] == {led[0].leader: sum(len(batch.data) for batch in led[0].log)}
        assert sizes[TopicPartition("a", 1)] == {led[1].leader: 0}
        assert TopicPartition("b", 0) in await admin.topic_sizes()


async def test_a_client_that_may_not_see_folders() -> None:
    async with FakeCluster() as brokers, new_admin(brokers) as admin:
        denials: list[dict[str, Any]] = [
            {"error": ErrorCode.CLUSTER_AUTHORIZATION_FAILED},
            # Brokers before 2.8 answer nothing.
            {"edit": lambda response: DescribeLogDirsResponse(results=())},
        ]
        for denial in denials:
            brokers.fault(DescribeLogDirsRequest, **denial)
            with pytest.raises(AuthorizationError, match="The folders of broker 1 could not be listed"):
                await admin.log_dirs()


async def test_the_first_records_of_partitions_are_deleted() -> None:
    async with FakeCluster(brokers=2) as brokers, new_admin(brokers) as admin:
        brokers.create_topic("a", partitions=2)
        for index in range(2):
            fill(brokers.topics["a"].partitions[index], 5)
        found = await admin.delete_records({TopicPartition("a", 0): 3, TopicPartition("a", 1): -1})
        assert found == {TopicPartition("a", 0): 3, TopicPartition("a", 1): 5}
        assert await admin.offsets("a", "earliest") == found


async def test_records_that_can_not_be_deleted() -> None:
    async with FakeCluster() as brokers, new_admin(brokers, default_api_timeout_ms=300) as admin:
        brokers.create_topic("a")
        fill(brokers.topics["a"].partitions[0], 5)
        with pytest.raises(UsageError, match="-2 is not an offset of a-0"):
            await admin.delete_records({TopicPartition("a", 0): -2})
        with pytest.raises(UsageError, match="Topic 'a' has no partition 3: it has 1"):
            await admin.delete_records({TopicPartition("a", 3): 1})
        with pytest.raises(UnknownTopicError):
            await admin.delete_records({TopicPartition("b", 0): 1})
        assert brokers.seen_of(DeleteRecordsRequest) == []
        with pytest.raises(BrokerError, match="Partition 0 of topic 'a' could not be emptied") as beyond:
            await admin.delete_records({TopicPartition("a", 0): 9})
        assert beyond.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        brokers.fault(DeleteRecordsRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError) as denied:
            await admin.delete_records({TopicPartition("a", 0): 1})
        assert denied.value.operation == "DELETE"
        brokers.fault(DeleteRecordsRequest, times=None, error=ErrorCode.REQUEST_TIMED_OUT)
        with pytest.raises(RequestTimedOutError):
            await admin.delete_records({TopicPartition("a", 0): 1})


# --- groups


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_the_members_of_a_group(protocol: Literal["classic", "consumer"]) -> None:
    async with FakeCluster(brokers=2) as brokers, new_admin(brokers) as admin:
        brokers.create_topic("a", partitions=3)
        assigned = asyncio.Event()
        member = Member(
            brokers.bootstrap,
            group_id="g",
            topics=["a"],
            client_id="worker",
            group_protocol=protocol,
            on_assigned=lambda partitions: assigned.set(),
        )
        async with member, asyncio.timeout(30):
            await assigned.wait()
            (group,) = (await admin.describe_groups(["g", "g"])).values()
        assert (group.group_id, group.state, group.type, group.protocol_type) == ("g", "Stable", protocol, "consumer")
        assert group.coordinator is not None
        assert group.coordinator.id == brokers.state.coordinator("g")
        assert (group.epoch is None) == (protocol == "classic")
        assert group.assignor
        (described,) = group.members
        assert described.partitions == tuple(TopicPartition("a", index) for index in range(3))
        assert described.client_host == "127.0.0.1"
        empty = (await admin.describe_groups("g"))["g"]
        assert (empty.state, empty.members) == ("Empty", ())


async def test_groups_that_do_not_exist_or_may_not_be_described() -> None:
    async with FakeCluster() as brokers:
        for versions in ((0, 6), (0, 5)):
            brokers[1].versions[DescribeGroupsRequest] = versions
            async with new_admin(brokers) as admin:
                with pytest.raises(BrokerError, match=r"^Group 'x' does not exist\.$") as missing:
                    await admin.describe_groups(["x"])
                assert missing.value.code == ErrorCode.GROUP_ID_NOT_FOUND
        async with new_admin(brokers) as admin:
            brokers.fault(ConsumerGroupDescribeRequest, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            with pytest.raises(AuthorizationError, match="Group 'x' could not be described"):
                await admin.describe_groups(["x"])


async def test_brokers_before_kip_848_know_classic_groups_only() -> None:
    async with FakeCluster() as brokers:
        del brokers[1].versions[ConsumerGroupDescribeRequest]
        async with Producer(brokers.bootstrap) as producer, new_admin(brokers) as admin:
            await producer.send("a", b"v")
            assigned = asyncio.Event()
            async with Member(
                brokers.bootstrap, group_id="g", topics=["a"], on_assigned=lambda partitions: assigned.set()
            ):
                async with asyncio.timeout(30):
                    await assigned.wait()
                assert (await admin.describe_groups(["g"]))["g"].type == "classic"
