"""Brokers that come and go, leaders that move, readers that wait."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from aioprod import TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import (
    ApiVersionsRequest,
    CreatePartitionsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from aioprod.messages.create_partitions import CreatePartitionsTopic
from aioprod.messages.fetch import FetchPartition, FetchTopic
from aioprod.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from aioprod.messages.produce import PartitionProduceData, TopicProduceData
from aioprod.testing import FakeCluster
from tests.support.lab import Lab, Topic, batch, connected_lab, open_lab
from tests.support.producers import turns, until

TP = TopicPartition("t", 0)


def topic_of(cluster: FakeCluster, **config: object) -> Topic:
    made = cluster.create_topic("t", 1, **config)
    return Topic(made.name, made.id)


async def test_the_brokers_lead_in_turn() -> None:
    async with FakeCluster(3) as cluster:
        topic = cluster.create_topic("t", partitions=4)
        assert [partition.leader for partition in topic.partitions] == [1, 2, 3, 1]
        assert cluster.bootstrap == ",".join(f"127.0.0.1:{cluster[node_id].port}" for node_id in (1, 2, 3))


async def test_the_same_seed_gives_the_same_ids() -> None:
    ids = []
    for seed in (1, 1, 2):
        async with FakeCluster(seed=seed) as cluster:
            ids.append((cluster.create_topic("t").id, cluster.recreate_topic("t").id))
    assert ids[0] == ids[1] != ids[2]
    assert len({*ids[0], *ids[2]}) == 4


async def test_other_brokers_become_leaders_when_one_dies() -> None:
    async with FakeCluster(3) as cluster:
        topic = topic_of(cluster)
        async with connected_lab(cluster[1].address) as lab:
            await lab.send(topic, batch())
        await cluster.kill(1)
        partition = cluster.topics["t"].partitions[0]
        assert (partition.leader, partition.leader_epoch) == (2, 1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*cluster[1].address)
        async with connected_lab(cluster[2].address) as lab:
            assert [row.node_id for row in (await lab.request(MetadataRequest(topics=()), 12)).brokers] == [2, 3]
            assert await lab.send(topic, batch()) == (ErrorCode.NONE, 1)
            address = cluster[1].address
            await cluster.restart(1)
            assert cluster[1].address == address
            assert {row.node_id for row in (await lab.request(MetadataRequest(topics=()), 12)).brokers} == {1, 2, 3}


async def test_the_last_broker_stays_the_leader() -> None:
    async with FakeCluster() as cluster:
        topic = topic_of(cluster)
        await cluster.kill(1)
        await cluster.restart(1)
        async with connected_lab(cluster[1].address) as lab:
            assert await lab.send(topic, batch()) == (ErrorCode.NONE, 0)


async def test_a_broker_comes_back_with_other_versions() -> None:
    async with FakeCluster() as cluster:
        cluster[1].versions[ProduceRequest] = (3, 9)
        await cluster.restart(1)
        async with connected_lab(cluster[1].address) as lab:
            spoken = {row.api_key: row.max_version for row in (await lab.request(ApiVersionsRequest(), 3)).api_keys}
            assert spoken[ProduceRequest.API_KEY] == 9
            with pytest.raises(asyncio.IncompleteReadError):
                await lab.send(topic_of(cluster), batch(), version=10)


async def test_the_finalized_feature() -> None:
    async with FakeCluster(transaction_version=1) as cluster, connected_lab(cluster[1].address) as lab:
        seen = []
        for version in (1, 2, 0):
            cluster.finalize(version)
            answer = await lab.request(ApiVersionsRequest(), 3)
            levels = [(row.name, row.max_version_level) for row in answer.finalized_features]
            seen.append((answer.finalized_features_epoch, levels))
        assert seen == [(2, [("transaction.version", 1)]), (3, [("transaction.version", 2)]), (4, [])]


async def test_a_frozen_broker_keeps_what_arrives() -> None:
    async with FakeCluster() as cluster:
        topic = topic_of(cluster)
        async with connected_lab(cluster[1].address) as lab:
            cluster.freeze(1)
            waiting = asyncio.create_task(lab.send(topic, batch()))
            await turns(50)
            assert not waiting.done()
            waiting.cancel()
            async with connected_lab(cluster[1].address) as other:
                late = asyncio.create_task(other.send(topic, batch()))
                await turns(50)
                assert cluster.records("t") == []
                cluster.thaw(1)
                assert (await late).offset in (0, 1)
        await until(lambda: len(cluster.records("t")) == 2)


async def test_a_thawed_broker_does_not_write_where_another_leads_now() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        cluster.freeze(1)
        waiting = asyncio.create_task(lab.send(topic, batch()))
        await turns(50)
        assert cluster.move_leader("t", 0) == 2
        cluster.thaw(1)
        assert await waiting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def produce_row(lab: Lab, topic: Topic, version: int) -> object:
    part = PartitionProduceData(index=0, records=batch())
    sent = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=(part,))
    answer = await lab.request(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=(sent,)), version)
    hint = answer.responses[0].partition_responses[0].current_leader
    return hint.leader_id, hint.leader_epoch, [(row.node_id, row.port) for row in answer.node_endpoints]


async def test_the_new_leader_is_named() -> None:
    async with FakeCluster(3) as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        assert cluster.move_leader("t", 0, to=3) == 3
        assert await produce_row(lab, topic, 10) == (3, 1, [(3, cluster[3].port)])
        assert await produce_row(lab, topic, 9) == (-1, -1, [])
        cluster.state.leader_hints = False
        assert await produce_row(lab, topic, 13) == (-1, -1, [])


async def test_with_acks_0_an_error_closes_the_connection() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        waiting = asyncio.create_task(lab.produce(topic, batch(), acks=0))
        await until(lambda: len(cluster.records("t")) == 1)
        await turns(50)
        assert not waiting.done()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        with pytest.raises(asyncio.IncompleteReadError):
            await lab.produce(topic, batch(), acks=0, partition=7)


async def test_too_few_brokers_for_the_topic() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster, min_insync_replicas=2)
        assert (await lab.send(topic, batch())).error == ErrorCode.NONE
        await cluster.kill(2)
        assert (await lab.send(topic, batch())).error == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_expired_producers_may_begin_with_any_sequence() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        made, producer = cluster.create_topic("t", 2), (await lab.init()).producer
        topic = Topic(made.name, made.id)
        await lab.send(topic, batch(producer, 0))
        cluster.expire_producer_state("t", partition=1)
        assert (await lab.send(topic, batch(producer, 7))).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        cluster.expire_producer_state("t")
        assert await lab.send(topic, batch(producer, 7)) == (ErrorCode.NONE, 1)


async def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, producer = topic_of(cluster), (await lab.init("tx")).producer
        await lab.write("tx", producer, topic, 0)
        cluster.expire_producer_state("t")
        assert await lab.write("tx", producer, topic, 1) == (ErrorCode.NONE, 1)


# --- reading


async def fetched(
    lab: Lab, offset: int, *, max_wait_ms: int, bytes_max: int = 1_000_000, min_bytes: int = 1, leader_epoch: int = -1
) -> tuple[int, int]:
    """Error and number of bytes."""
    row = FetchPartition(
        partition=0, fetch_offset=offset, current_leader_epoch=leader_epoch, partition_max_bytes=bytes_max
    )
    topics = (FetchTopic(topic="t", partitions=(row,)),)
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics)
    part = (await lab.request(request, 12)).responses[0].partitions[0]
    return part.error_code, len(part.records or b"")


async def test_a_fetch_waits_for_records() -> None:
    async with FakeCluster() as cluster:
        topic, data = topic_of(cluster), batch()
        async with connected_lab(cluster[1].address) as reader, connected_lab(cluster[1].address) as writer:
            waiting = asyncio.create_task(fetched(reader, 0, max_wait_ms=60_000))
            await turns(50)
            assert not waiting.done()
            await writer.send(topic, data)
            assert await waiting == (0, len(data))


async def test_a_fetch_waits_for_enough_bytes() -> None:
    async with FakeCluster() as cluster:
        topic, data = topic_of(cluster), batch()
        async with connected_lab(cluster[1].address) as reader, connected_lab(cluster[1].address) as writer:
            waiting = asyncio.create_task(fetched(reader, 0, max_wait_ms=60_000, min_bytes=len(data) + 1))
            await writer.send(topic, data)
            await turns(50)
            assert not waiting.done()
            await writer.send(topic, data)
            assert await waiting == (0, 2 * len(data))


async def test_a_fetch_waits_no_longer_than_max_wait_ms() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic_of(cluster)
        before = asyncio.get_running_loop().time()
        assert await fetched(lab, 0, max_wait_ms=20) == (0, 0)
        assert asyncio.get_running_loop().time() - before >= 0.02


async def test_a_waiting_fetch_is_answered_when_the_leader_changes() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab:
        topic_of(cluster)
        waiting = asyncio.create_task(fetched(lab, 0, max_wait_ms=60_000, leader_epoch=0))
        await turns(50)
        cluster.move_leader("t", 0)
        assert (await waiting)[0] == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_fetch_returns_whole_batches_and_at_least_one() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, data = topic_of(cluster), batch(count=5)
        for _ in range(3):
            await lab.send(topic, data)
        assert await fetched(lab, 0, max_wait_ms=0, bytes_max=1) == (0, len(data))
        assert await fetched(lab, 7, max_wait_ms=0, bytes_max=len(data) * 2) == (0, len(data) * 2)
        assert await fetched(lab, 99, max_wait_ms=0) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)


async def test_the_end_of_a_log_depends_on_the_isolation_level() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, producer = topic_of(cluster), (await lab.init("tx")).producer
        await lab.send(topic, batch(count=2))
        await lab.write("tx", producer, topic, 0)
        ends = []
        for isolation_level in (0, 1):
            row = ListOffsetsPartition(partition_index=0, timestamp=-1)
            wanted = ListOffsetsTopic(name="t", partitions=(row,))
            request = ListOffsetsRequest(isolation_level=isolation_level, topics=(wanted,))
            ends.append((await lab.request(request, 7)).topics[0].partitions[0].offset)
        assert ends == [3, 2]
        assert len(cluster.records("t")) == 2
        assert len(cluster.records("t", partition=0, isolation="read_uncommitted")) == 3


async def test_a_topic_of_more_partitions_than_any_test_needs_is_refused() -> None:
    async with FakeCluster() as cluster, open_lab(cluster.bootstrap, 2) as lab:
        created = await lab.create("t", partitions=20_000_000)
        assert (created.error_code, "t" in cluster.topics) == (ErrorCode.POLICY_VIOLATION, False)
        await lab.create("t")
        wanted = CreatePartitionsTopic(name="t", count=20_000_000, assignments=None)
        (row,) = (await lab.request(CreatePartitionsRequest(topics=(wanted,), timeout_ms=1000), 3)).results
        assert (row.error_code, len(cluster.topics["t"].partitions)) == (ErrorCode.POLICY_VIOLATION, 1)


async def test_the_offsets_of_a_topic_go_with_it() -> None:
    async with FakeCluster() as cluster, open_lab(cluster.bootstrap, 2) as lab:
        assert await lab.commit("g", await lab.topic("t"), 5) == ErrorCode.NONE
        cluster.recreate_topic("t")
        assert cluster.committed_offset("g", TopicPartition("t", 0)) is None


async def test_a_request_that_no_fake_broker_knows_is_an_error() -> None:
    """It fails the test, unless that takes the error away."""
    async with FakeCluster() as cluster:
        reader, writer = await asyncio.open_connection(*cluster.addresses[0])
        writer.write(bytes.fromhex("0000000a 001d 0002 00000001 ffff"))
        assert await reader.read() == b""
        writer.close()
        assert str(cluster.errors.pop()) == "key 29, version 2, is not known"
