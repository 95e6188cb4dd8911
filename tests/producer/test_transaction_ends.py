"""How a transaction ends when its last requests met each other, were lost, or had nothing to carry."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from aioprod import TopicPartition
from aioprod.errors import (
    BrokerError,
    ErrorCode,
    RejectedError,
    RequestTimedOutError,
    TransactionAbortedError,
    UnknownOutcomeError,
    UsageError,
)
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.producer.compressor import INLINE_S
from aioprod.producer.transactions.states import TransactionState
from aioprod.records.compression import Compression, inline_size
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.transactions import State
from tests.support.codec_gate import codec_gate
from tests.support.producers import ShiftedClock, pass_time, turns, until
from tests.support.simulated import in_simulated_time
from tests.support.transactions import seen, state_of, transacting, transactional, values, work

S = TransactionState
TP = TopicPartition("t", 0)
INLINE = inline_size(Compression.GZIP, 9, INLINE_S)
PATIENCE_S = 10.0


async def test_a_batch_that_expired_on_the_wire_and_a_later_one_that_was_stored(cluster: FakeCluster) -> None:
    clock = ShiftedClock()
    times = {"delivery_timeout_ms": 10_000, "request_timeout_ms": 9_000, "linger_ms": 0}
    async with transacting(cluster, clock=clock, **times) as producer:
        await producer.begin_transaction()
        first = cluster.fault(ProduceRequest, hold=True)
        anchor = producer.submit("t", b"anchor", partition=0)
        await first.reached.wait()
        expiring = producer.submit("t", b"expires on the wire", partition=0)
        pass_time(producer, clock, 3)
        second = cluster.fault(ProduceRequest, hold=True)
        first.release()
        await anchor
        await second.reached.wait()
        pass_time(producer, clock, 4)
        later = producer.submit("t", b"stored", partition=0)
        await turns()
        pass_time(producer, clock, 4)
        with pytest.raises(UnknownOutcomeError):
            await expiring
        second.release()
        assert (await later).partition == 0
        await producer.abort_transaction()
        async with asyncio.timeout(PATIENCE_S):
            await work(producer, b"kept")
    assert await values(cluster) == [b"kept"]


# --- a commit meets what was asked before it


async def test_a_partition_whose_records_were_taken_back_before_it_was_added(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        adding = explicit.fault(AddPartitionsToTxnRequest, hold=True)
        futures = [producer.submit("t", b"taken back", partition=1)]
        await adding.reached.wait()
        futures.append(producer.submit("t", b"taken back", partition=0))
        await turns()
        for future in futures:
            future.cancel()
        await turns()
        committing = asyncio.create_task(producer.commit_transaction())
        await turns()
        adding.release()
        await committing
        async with asyncio.timeout(PATIENCE_S):
            await work(producer, b"kept")
    assert await values(explicit) == [b"kept"]


async def test_a_partition_that_is_rejected_while_the_commit_waits(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        adding = explicit.fault(AddPartitionsToTxnRequest, hold=True, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        future = producer.submit("t", b"taken back", partition=1)
        await adding.reached.wait()
        future.cancel()
        await turns()
        committing = asyncio.create_task(producer.commit_transaction())
        await turns()
        adding.release()
        with pytest.raises(TransactionAbortedError, match="TOPIC_AUTHORIZATION_FAILED"):
            await committing
        assert state_of(producer) is S.ABORTABLE_ERROR
        await producer.abort_transaction()
        await work(producer, b"kept")
    assert await values(explicit) == [b"kept"]


async def test_offsets_that_are_rejected_while_the_commit_waits(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        offsets = cluster.fault(TxnOffsetCommitRequest, hold=True, error=ErrorCode.ILLEGAL_GENERATION)
        sending = asyncio.create_task(producer.send_offsets_to_transaction({TP: 1}, "g"))
        await offsets.reached.wait()
        committing = asyncio.create_task(producer.commit_transaction())
        await turns()
        offsets.release()
        for call in (sending, committing):
            with pytest.raises(TransactionAbortedError, match="ILLEGAL_GENERATION"):
                await call
        await producer.abort_transaction()
        await work(producer, b"kept")
    assert await values(cluster) == [b"kept"]


@pytest.mark.parametrize("commits", [True, False])
async def test_an_end_that_comes_late_does_not_end_the_next_transaction(explicit: FakeCluster, commits: bool) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"first", partition=0)
        late = explicit.fault(EndTxnRequest, drop="lurking", hold=True)
        await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.begin_transaction()
        await producer.send("t", b"second", partition=0)
        late.release()
        await turns()
        assert explicit.state.transactions["id"].state is State.ONGOING
        await (producer.abort_transaction() if commits else producer.commit_transaction())
    assert await values(explicit) == [b"first" if commits else b"second"]


async def test_a_partition_that_is_added_late_does_not_fence_the_producer(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        late = explicit.fault(AddPartitionsToTxnRequest, drop="lurking", hold=True)
        await producer.send("t", b"first", partition=0)
        await producer.commit_transaction()
        one = explicit.state.transactions["id"]
        await until(lambda: one.state is State.COMPLETE_COMMIT)
        late.release()
        await until(lambda: one.state is State.ONGOING)
        await work(producer, b"second")
    assert await values(explicit) == [b"first", b"second"]


@pytest.mark.parametrize("kind", ["send_many", "send_arrow"])
async def test_a_bulk_call_that_waits_for_its_topic_does_not_get_into_the_next_transaction(
    cluster: FakeCluster, kind: str
) -> None:
    cluster.state.auto_create = False
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        call = (
            producer.send_many("late", [b"lost"])
            if kind == "send_many"
            else producer.send_arrow(pa.table({"value": [b"lost"]}), topic="late")
        )
        sending = asyncio.create_task(call)
        await turns()
        await producer.commit_transaction()
        await producer.begin_transaction()
        cluster.create_topic("late")
        with pytest.raises(UsageError, match="has ended"):
            await sending
        await producer.commit_transaction()
    assert cluster.records("late") == []


# --- transactions of which the coordinator knows nothing, or may know


async def test_a_record_that_is_taken_back_while_a_thread_compresses_it(
    implicit: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"compression_type": "gzip", "compression_gzip_level": 9, "batch_size": 20 * INLINE, "linger_ms": 1000}
    with codec_gate(monkeypatch) as gate:
        async with transacting(implicit, **options) as producer:
            await producer.begin_transaction()
            future = producer.submit("t", b"x " * INLINE, partition=1)
            await until(lambda: gate.active)
            future.cancel()
            await turns()
            gate.open()
            await producer.commit_transaction()
            assert seen(implicit) == ["InitProducerId"]
            await work(producer, b"kept")
    assert await values(implicit) == [b"kept"]


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("number", [0, 1])
@in_simulated_time
async def test_offsets_that_may_have_been_added(arrives: bool, number: int) -> None:
    async with transactional(1, 1) as explicit:
        async with transacting(explicit, max_block_ms=200) as producer:
            for _ in range(number):
                await work(producer, b"kept")
            await producer.begin_transaction()
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            adding = explicit.fault(AddOffsetsToTxnRequest, error=loading, apply=arrives, times=None)
            with pytest.raises(RequestTimedOutError):
                await producer.send_offsets_to_transaction({TP: 1}, "g")
            adding.times = adding.hits
            await producer.abort_transaction()
            await work(producer, b"kept")
        assert await values(explicit) == [b"kept"] * (number + 1)
        assert explicit.committed_offset("g", TP) is None


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_partition_without_records_that_may_have_been_added(
    explicit: FakeCluster, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    monkeypatch.setattr("aioprod.producer.transactions.manager.PATIENCE_S", 0.05)
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        adding = explicit.fault(AddPartitionsToTxnRequest, error=loading, apply=arrives, times=None)
        future = producer.submit("t", b"taken back", partition=1)
        await adding.reached.wait()
        future.cancel()
        await turns()
        await producer.commit_transaction()
        adding.times = adding.hits
        assert explicit.state.transactions["id"].state is not State.ONGOING
        await work(producer, b"kept")
    assert await values(explicit) == [b"kept"]


async def test_an_abort_that_gets_no_new_epoch(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        explicit.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(RejectedError):
            await producer.send("t", b"lost", partition=0)
        explicit.fault(InitProducerIdRequest, error=ErrorCode.TRANSACTION_ABORTABLE)
        for call in (producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(BrokerError, match="TRANSACTION_ABORTABLE"):
                await call()
        assert state_of(producer) is S.FATAL_ERROR


async def test_a_begin_that_is_interrupted_while_it_gets_a_new_epoch(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"kept", partition=0)
        explicit.fault(EndTxnRequest, drop="after")
        await producer.commit_transaction()
        asked = explicit.fault(InitProducerIdRequest, hold=True)
        beginning = asyncio.create_task(producer.begin_transaction())
        await asked.reached.wait()
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        asked.release()
        await work(producer, b"kept")
    assert await values(explicit) == [b"kept"] * 2
