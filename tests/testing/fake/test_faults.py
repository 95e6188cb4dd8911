"""What goes wrong on order, and what is left of it in the log."""

from __future__ import annotations

import asyncio

import pytest

from aioprod import TopicPartition
from aioprod.errors import ErrorCode, ProtocolError
from aioprod.messages import (
    ApiVersionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    OffsetFetchRequest,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
)
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.quota import Quota
from tests.support.lab import Lab, Stored, Topic, batch, connected_lab
from tests.support.producers import until

CUT = (asyncio.IncompleteReadError, ConnectionResetError)


def topic_of(cluster: FakeCluster) -> Topic:
    made = cluster.create_topic("t")
    return Topic(made.name, made.id)


async def never_answered(lab: Lab, topic: Topic) -> asyncio.Task[Stored]:
    """A Produce request that is still not answered after many iterations of the loop."""
    waiting = asyncio.create_task(lab.send(topic, batch()))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


@pytest.mark.parametrize(("when", "stored"), [("before", 0), ("after", 1)])
async def test_a_connection_is_cut_before_or_after_the_request_takes_effect(when: str, stored: int) -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        cluster.fault(ProduceRequest, drop=when)
        with pytest.raises(CUT):
            await lab.send(topic, batch())
        assert len(cluster.records("t")) == stored


async def test_a_request_lurks_after_its_connection_was_cut() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        fault = cluster.fault(ProduceRequest, drop="lurking", hold=True)
        with pytest.raises(CUT):
            await lab.send(topic, batch())
        assert cluster.records("t") == []
        assert cluster[1].connections == 0
        fault.release()
        await until(lambda: len(cluster.records("t")) == 1)


async def test_a_lurking_request_ends_with_its_broker() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        fault = cluster.fault(ProduceRequest, drop="lurking", hold=True)
        with pytest.raises(CUT):
            await lab.send(topic, batch())
        await cluster.restart(1)
        fault.release()
        async with connected_lab(cluster[1].address) as other:
            assert await other.send(topic, batch()) == (ErrorCode.NONE, 0)


async def test_a_half_open_connection_ignores_requests() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        cluster.fault(ProduceRequest, half_open=True)
        waiting = await never_answered(lab, topic)
        waiting.cancel()
        assert cluster.records("t") == []
        async with connected_lab(cluster[1].address) as other:
            assert (await other.send(topic, batch())).offset == 0


async def test_a_silent_broker_has_stored_the_records() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        cluster.fault(ProduceRequest, silent=True)
        waiting = await never_answered(lab, topic_of(cluster))
        waiting.cancel()
        assert len(cluster.records("t")) == 1


async def test_an_answer_is_cut_in_the_middle() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        cluster.fault(ProduceRequest, cut_after_bytes=9)
        with pytest.raises(asyncio.IncompleteReadError) as raised:
            await lab.send(topic_of(cluster), batch())
        assert len(raised.value.partial) == 5
        assert len(cluster.records("t")) == 1


async def test_other_bytes_in_place_of_an_answer() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        cluster.fault(ProduceRequest, reply=b"\0\0\0\x04junk")
        with pytest.raises(ProtocolError):
            await lab.send(topic_of(cluster), batch())


async def test_a_delayed_request_holds_back_those_behind_it() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic = topic_of(cluster)
        fault = cluster.fault(ProduceRequest, hold=True)
        waiting = await never_answered(lab, topic)
        async with connected_lab(cluster[1].address) as other:
            assert (await other.send(topic, batch())).offset == 0
        fault.release()
        assert (await waiting).offset == 1


async def test_an_error_for_one_partition_and_on_one_node() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab:
        made = cluster.create_topic("t", 2)
        topic = Topic(made.name, made.id)
        denied, none = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE
        elsewhere = cluster.fault(ProduceRequest, error=denied, node=2)
        other = cluster.fault(ProduceRequest, error=denied, partition=TopicPartition("t", 1))
        cluster.fault(ProduceRequest, error=denied, partition=TopicPartition("t", 0), times=2)
        assert [(await lab.send(topic, batch())).error for _ in range(4)] == [none, denied, denied, none]
        assert cluster.unused_faults == [elsewhere, other]
        cluster.end_faults()


async def test_an_error_of_a_request_that_takes_effect() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, producer = topic_of(cluster), (await lab.init()).producer
        cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, apply=True)
        assert (await lab.send(topic, batch(producer, 0))).error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert await lab.send(topic, batch(producer, 0)) == (ErrorCode.NONE, 0)


async def test_errors_of_the_coordinator() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, loading = topic_of(cluster), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        cluster.fault(InitProducerIdRequest, error=loading, times=2)
        assert await lab.init() == await lab.init("tx") == (loading, -1, -1)
        producer = (await lab.init("tx")).producer
        assert (await lab.write("tx", producer, topic, 0)).error == ErrorCode.NONE
        cluster.fault(EndTxnRequest, error=loading)
        assert (await lab.end("tx", producer, commits=True)).error == loading
        cluster.fault(EndTxnRequest, error=ErrorCode.REQUEST_TIMED_OUT, apply=True)
        assert (await lab.end("tx", producer, commits=True)).error == ErrorCode.REQUEST_TIMED_OUT
        assert len((await lab.completed_log(topic)).values) == 1


async def test_errors_of_a_group() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, producer = topic_of(cluster), (await lab.init("tx")).producer
        cluster.fault(TxnOffsetCommitRequest, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        assert await lab.commit_in("tx", producer, "g", topic, 5) == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert cluster.state.groups["g"].pending[producer[0]] == {}
        cluster.fault(OffsetFetchRequest, error=ErrorCode.UNSTABLE_OFFSET_COMMIT, partition=TopicPartition("t", 0))
        assert await lab.committed("g", topic) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert await lab.committed("g", topic) == (ErrorCode.NONE, -1)


async def test_a_quota_makes_clients_wait() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        topic, throttle_ms = topic_of(cluster), []

        def listen(answer: ProduceResponse) -> ProduceResponse:
            throttle_ms.append(answer.throttle_time_ms)
            return answer

        cluster.fault(ProduceRequest, times=None, edit=listen)
        data = batch(count=100)
        await lab.send(topic, data)
        cluster[1].quota = Quota(bytes_per_s=len(data) / 1.1)
        before = asyncio.get_running_loop().time()
        await lab.send(topic, data)
        await lab.init()
        assert throttle_ms[0] == 0
        assert throttle_ms[1] >= 100
        assert asyncio.get_running_loop().time() - before >= throttle_ms[1] / 1000


def test_a_quota_recovers_with_time() -> None:
    quota = Quota(bytes_per_s=1_000)
    assert quota.charge(1_000, now=10.0) == 0.0
    assert quota.charge(500, now=10.0) == 0.5
    assert quota.charge(0, now=10.4) == pytest.approx(0.1)
    assert quota.charge(1_000, now=60.0) == 0.0


async def a_fault_of_the_tests_own() -> None:
    def broken(_: object) -> None:
        raise ValueError("broken")

    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab:
        cluster.fault(ApiVersionsRequest, edit=broken)
        with pytest.raises(CUT):
            await lab.request(ApiVersionsRequest(), 0)


async def test_an_exception_in_a_broker_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="broken"):
        await a_fault_of_the_tests_own()
