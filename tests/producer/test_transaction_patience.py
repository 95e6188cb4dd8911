"""Coordinators that take long: what goes on in the background starts again, and calls end in time."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import (
    AioprodError,
    BrokerError,
    ErrorCode,
    NotSentError,
    RequestTimedOutError,
    TransactionAbortedError,
)
from aioprod.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.producer.transactions import manager
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from tests.support.producers import begin, new_producer, turns, until
from tests.support.simulated import in_simulated_time
from tests.support.transactions import state_of, transacting, transactional, values, work

S = TransactionState


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes on in the background loses patience soon."""
    monkeypatch.setattr(manager, "PATIENCE_S", 0.05)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("version", [2, 1])
@in_simulated_time
async def test_an_end_is_retried_until_it_is_answered(version: int) -> None:
    async with transactional(3, version) as cluster:
        async with transacting(cluster, request_timeout_ms=50) as producer:
            for commits in (True, False):
                await producer.begin_transaction()
                await producer.send("t", b"kept" if commits else b"lost", partition=0)
                fault = cluster.fault(EndTxnRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=200)
                ending = asyncio.create_task(producer.commit_transaction() if commits else producer.abort_transaction())
                await ending
                assert fault.hits == 200
        assert await values(cluster) == [b"kept"]


@pytest.mark.usefixtures("hasty")
async def test_adding_partitions_is_retried_until_the_abort(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        fault = explicit.fault(AddPartitionsToTxnRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=200)
        future = producer.submit("t", b"kept", partition=0)
        await until(lambda: fault.hits == 200)
        await future
        await producer.commit_transaction()

        await producer.begin_transaction()
        explicit.fault(AddPartitionsToTxnRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=200)
        future = producer.submit("t", b"lost", partition=1)
        await turns()
        epochs = len(explicit.seen_of(InitProducerIdRequest))
        await producer.abort_transaction()
        with pytest.raises(NotSentError):
            await future
        # Nobody knows whether the coordinator has added it: only a new epoch makes sure that it does not matter.
        assert [request.producer_epoch >= 0 for request in explicit.seen_of(InitProducerIdRequest)[epochs:]] == [True]
        await work(producer, b"kept")
    assert await values(explicit) == [b"kept"] * 2


async def test_a_rejected_coordinator_lookup_ends_the_producer(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        explicit.fault(AddPartitionsToTxnRequest, error=ErrorCode.NOT_COORDINATOR)
        explicit.fault(FindCoordinatorRequest, error=ErrorCode.INVALID_REQUEST)
        with pytest.raises(NotSentError) as raised:
            await producer.send("t", b"lost", partition=0)
        assert isinstance(raised.value.__cause__, BrokerError)
        with pytest.raises(BrokerError, match="INVALID_REQUEST"):
            await producer.commit_transaction()


@in_simulated_time
async def test_the_start_ends_in_time_while_the_last_transaction_is_completed() -> None:
    async with transactional(1, 2) as implicit:
        implicit.fault(InitProducerIdRequest, error=ErrorCode.CONCURRENT_TRANSACTIONS, times=None)
        producer = new_producer(implicit.bootstrap, transactional_id="id", max_block_ms=100)
        with pytest.raises(RequestTimedOutError, match="CONCURRENT_TRANSACTIONS"):
            await begin(producer)


@in_simulated_time
async def test_offsets_wait_for_other_requests_no_longer_than_they_may() -> None:
    async with transactional(1, 1) as explicit:
        async with transacting(explicit, max_block_ms=100) as producer:
            await producer.begin_transaction()
            held = explicit.fault(AddPartitionsToTxnRequest, hold=True)
            future = producer.submit("t", b"kept", partition=0)
            await held.reached.wait()
            with pytest.raises(RequestTimedOutError, match=r"max\.block\.ms=100"):
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
            # Nothing was asked, so nothing is lost.
            assert state_of(producer) is S.IN_TRANSACTION
            held.release()
            await future
            await producer.commit_transaction()
        assert await values(explicit) == [b"kept"]


async def test_offsets_that_wait_are_not_sent_in_another_transaction(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        held = explicit.fault(AddPartitionsToTxnRequest, hold=True)
        future = producer.submit("t", b"lost", partition=0)
        await held.reached.wait()
        sending = asyncio.create_task(producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g"))
        await turns()
        aborting = asyncio.create_task(producer.abort_transaction())
        await turns()
        held.release()
        await aborting
        with pytest.raises(AioprodError, match="can't be called here"):
            await sending
        with pytest.raises(NotSentError):
            await future
    assert explicit.seen_of(TxnOffsetCommitRequest) == []


async def test_many_batches_fail_in_time_slices(cluster: FakeCluster) -> None:
    async with transacting(cluster, batch_size=0) as producer:
        await producer.begin_transaction()
        held = cluster.fault(ProduceRequest, hold=True, times=None)
        futures = [producer.submit("t", b"lost", partition=index % 3) for index in range(1000)]
        await held.reached.wait()
        aborting = asyncio.create_task(producer.abort_transaction())
        await until(lambda: sum(future.done() for future in futures) > 900)
        held.release()
        await aborting
        errors = [future.exception() for future in futures]
        assert sum(isinstance(error, NotSentError) for error in errors) > 900
        assert all(
            isinstance(e, NotSentError) and isinstance(e.__cause__, TransactionAbortedError) for e in errors if e
        )
    assert await values(cluster) == []


async def test_a_bug_is_not_taken_for_success(implicit: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async with transacting(implicit) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"?", partition=0)
        running = producer._engine.transactions
        assert running is not None

        async def broken(_step: object) -> bool:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(running, "_retry", broken)
        with pytest.raises(AioprodError, match="a bug"):
            await producer.commit_transaction()
        with pytest.raises(AioprodError, match="a bug"):
            await producer.begin_transaction()


async def test_an_identity_that_can_not_be_is_a_lost_answer(cluster: FakeCluster) -> None:
    wrong: dict[str, Any]
    for wrong in ({"producer_id": -5}, {"producer_epoch": -7}):
        cluster.fault(InitProducerIdRequest, edit=functools.partial(replace, **wrong))
    cluster.fault(EndTxnRequest, edit=functools.partial(replace, producer_epoch=-7))
    async with transacting(cluster) as producer:
        for value in (b"0", b"1"):
            async with producer.transaction():
                await producer.send("t", value, partition=0)
    assert await values(cluster) == [b"0", b"1"]
