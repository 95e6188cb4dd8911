"""Coordinators that move, markers that take their time, epochs that run out."""

from __future__ import annotations

import asyncio

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import FindCoordinatorRequest
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.transactions import LAST_EPOCH, State
from tests.support.lab import Lab, Topic, batch, connected_lab
from tests.support.producers import until

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


def topic_of(cluster: FakeCluster) -> Topic:
    made = cluster.create_topic("t")
    return Topic(made.name, made.id)


async def found(lab: Lab, key: str, version: int) -> tuple[int, int]:
    """Error and node id."""
    if version < 4:
        one = await lab.request(FindCoordinatorRequest(key=key, key_type=1), version)
        return one.error_code, one.node_id
    many = await lab.request(FindCoordinatorRequest(coordinator_keys=(key,), key_type=1), version)
    return many.coordinators[0].error_code, many.coordinators[0].node_id


@pytest.mark.parametrize("version", [3, 4])
async def test_a_coordinator_stays_until_its_broker_dies(version: int) -> None:
    async with FakeCluster(3) as cluster:
        async with connected_lab(cluster[1].address) as lab:
            before = {key: (await found(lab, key, version))[1] for key in "abcdefgh"}
        assert set(before.values()) == {1, 2, 3}
        await cluster.kill(1)
        async with connected_lab(cluster[2].address) as lab:
            after = {key: (await found(lab, key, version))[1] for key in "abcdefgh"}
            assert {key: node for key, node in before.items() if node != 1}.items() <= after.items()
            assert set(after.values()) == {2, 3}
            cluster.move_coordinator("a", 1)
            assert await found(lab, "a", version) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


async def test_only_the_coordinator_answers() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab:
        topic, wrong = topic_of(cluster), ErrorCode.NOT_COORDINATOR
        cluster.move_coordinator("tx", 1)
        producer = (await lab.init("tx")).producer
        cluster.move_coordinator("tx", 2)
        cluster.move_coordinator("g", 2)
        assert (await lab.init("tx")).error == wrong
        assert await lab.add("tx", producer, "t") == [wrong]
        assert await lab.add_offsets("tx", producer, "g") == wrong
        assert (await lab.end("tx", producer, commits=True)).error == wrong
        assert await lab.commit_in("tx", producer, "g", topic, 1) == wrong
        assert await lab.commit("g", topic, 1) == wrong


async def test_a_leader_that_can_not_reach_the_coordinator() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        cluster.move_coordinator("tx", 1)
        producer = (await lab.init("tx")).producer
        cluster.move_coordinator("tx", 2)
        cluster.freeze(2)
        assert (await lab.write("tx", producer, topic, 0)).error == ErrorCode.NOT_ENOUGH_REPLICAS
        # The batch that was rejected first has to be appended first.
        cluster.thaw(2)
        assert (await lab.write("tx", producer, topic, 1)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [(await lab.write("tx", producer, topic, sequence)).error for sequence in (0, 1)] == [NONE, NONE]


@pytest.mark.parametrize("version", [1, 2])
async def test_committed_records_are_visible_at_once(version: int) -> None:
    async with FakeCluster(3, transaction_version=version) as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap, transactional_id="tx") as producer:
            for number in range(3):
                async with producer.transaction():
                    await producer.send("t", b"value")
                    await producer.send_offsets_to_transaction({TopicPartition("t", 0): number}, "g")
                assert len(cluster.records("t")) == number + 1
                assert cluster.committed_offset("g", TopicPartition("t", 0)) == number


async def test_while_markers_are_written_requests_get_concurrent_transactions() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        cluster.state.transactions.marker_delay_s = 3600.0
        topic, producer = topic_of(cluster), (await lab.init("tx")).producer
        await lab.write("tx", producer, topic, 0)
        ended = await lab.end("tx", producer, commits=True)
        assert (await lab.end("tx", producer, commits=True)).error == CONCURRENT
        assert (await lab.end("tx", producer, commits=False)).error == CONCURRENT
        assert (await lab.end("tx", ended.producer, commits=False)).error == CONCURRENT
        assert (await lab.init("tx")).error == CONCURRENT
        assert await lab.add("tx", ended.producer, "t") == [CONCURRENT]
        other = cluster.create_topic("other")
        next_batch = batch(ended.producer, 0, transactional=True)
        stored = [
            (await lab.send(Topic("other", other.id), next_batch, transactional_id="tx", version=version)).error
            for version in (11, 12)
        ]
        assert stored == [ErrorCode.NOT_ENOUGH_REPLICAS, CONCURRENT]
        commits = [await lab.commit_in("tx", ended.producer, "g", topic, 1, version=version) for version in (4, 5)]
        assert commits == [ErrorCode.COORDINATOR_NOT_AVAILABLE, CONCURRENT]
        assert cluster.records("t") == []


async def test_markers_wait_for_leaders() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        cluster.move_coordinator("tx", 1)
        producer = (await lab.init("tx")).producer
        await lab.write("tx", producer, topic, 0)
        cluster.move_leader("t", 0, to=2)
        cluster.freeze(2)
        await lab.end("tx", producer, commits=True)
        transaction = cluster.state.transactions["tx"]
        await asyncio.sleep(2 * cluster.state.transactions.marker_delay_s)
        assert transaction.state is State.PREPARE_COMMIT
        cluster.thaw(2)
        await until(lambda: transaction.state is State.COMPLETE_COMMIT)
        assert len(cluster.records("t")) == 1


async def test_epochs_run_out_at_the_start() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        old = await lab.init("tx")
        cluster.state.transactions["tx"].epoch = LAST_EPOCH
        new = await lab.init("tx", (old.producer_id, LAST_EPOCH))
        assert (new.error, new.epoch) == (NONE, 0)
        assert new.producer_id != old.producer_id
        assert (await lab.init("tx", (old.producer_id, LAST_EPOCH))) == new
        topic = topic_of(cluster)
        stored = await lab.write("tx", (old.producer_id, LAST_EPOCH), topic, 0)
        assert stored.error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_epochs_run_out_at_the_end_of_a_transaction() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, old = topic_of(cluster), (await lab.init("tx")).producer_id
        cluster.state.transactions["tx"].epoch = LAST_EPOCH
        await lab.write("tx", (old, LAST_EPOCH), topic, 0)
        ended = await lab.end("tx", (old, LAST_EPOCH), commits=True)
        assert (ended.error, ended.epoch) == (NONE, 0)
        assert ended.producer_id != old
        await lab.completed_log(topic)
        assert await lab.end("tx", (old, LAST_EPOCH), commits=True) == ended
        assert (await lab.write("tx", ended.producer, topic, 0)).error == NONE


async def test_offsets_of_members() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, producer = topic_of(cluster), (await lab.init("tx")).producer
        await lab.commit("g", topic, 1)
        cluster.state.groups["g"].members, cluster.state.groups["g"].generation = {"me"}, 4
        assert await lab.commit("g", topic, 2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await lab.commit("g", topic, 2, generation=3, member="me") == ErrorCode.ILLEGAL_GENERATION
        assert await lab.commit("g", topic, 2, generation=4, member="me") == NONE
        late = await lab.commit_in("tx", producer, "g", topic, 3, generation=3, member="me")
        assert late == ErrorCode.ILLEGAL_GENERATION
        assert await lab.commit_in("tx", producer, "g", topic, 3, generation=4, member="me") == NONE
        assert cluster.committed_offset("g", TopicPartition("t", 0)) == 2
        assert cluster.committed_offset("unknown", TopicPartition("t", 0)) is None


async def a_timer_that_fails() -> None:
    async with FakeCluster() as cluster:
        cluster.state.timers.later(0.0, lambda: print(1 / 0))
        await until(lambda: cluster.errors)


async def test_a_timer_that_fails_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="division"):
        await a_timer_that_fails()
