"""What coordinators answer when something is wrong, and when they can't be reached."""

from __future__ import annotations

import asyncio
import logging
import pickle
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    NotSentError,
    ProducerClosedError,
    ProducerFencedError,
    RejectedError,
    RequestTimedOutError,
    TransactionAbortedError,
)
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from aioprod.wire.schema import AnyRequest
from tests.support.producers import Outcomes, begin, new_producer, turns, until
from tests.support.simulated import in_simulated_time
from tests.support.transactions import seen, state_of, transacting, transactional, values, work

S = TransactionState
GROUP = {TopicPartition("t", 0): 4}
RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
)
ALL_STEPS = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    EndTxnRequest,
)


@pytest.mark.parametrize("code", RETRIABLE)
async def test_what_passes_is_waited_for(cluster: FakeCluster, code: ErrorCode) -> None:
    for kind in ALL_STEPS:
        cluster.fault(kind, error=code, times=2)
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"kept", partition=0)
        await producer.send_offsets_to_transaction(GROUP, "g")
        await producer.commit_transaction()
    assert await values(cluster) == [b"kept"]
    await until(lambda: cluster.committed_offset("g", TopicPartition("t", 0)) == 4)
    cluster.end_faults()  # Not each version takes all steps.


@pytest.mark.parametrize("drop", ["before", "after"])
async def test_requests_with_lost_answers_are_retried(cluster: FakeCluster, drop: Any) -> None:
    async with transacting(cluster) as producer:
        for kind in (FindCoordinatorRequest, *ALL_STEPS):
            cluster.fault(kind, drop=drop)
        for number in range(3):
            await producer.begin_transaction()
            await producer.send("t", b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): number}, "g")
            await producer.commit_transaction()
    assert await values(cluster) == [b"0", b"1", b"2"]
    await until(lambda: cluster.committed_offset("g", TopicPartition("t", 0)) == 2)
    cluster.end_faults()  # Not each version takes all steps.


async def test_the_coordinator_moves(cluster: FakeCluster) -> None:
    cluster.move_coordinator("id", 1)
    async with transacting(cluster) as producer:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send("t", b"%d" % number, partition=0)
            cluster.move_coordinator("id", 1 + (number + 1) % 3)
            await producer.commit_transaction()
    assert await values(cluster) == [b"%d" % number for number in range(6)]


async def test_the_coordinator_dies_and_comes_back(cluster: FakeCluster) -> None:
    cluster.move_coordinator("id", 3)
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"kept", partition=0)
        await cluster.kill(3)
        committing = asyncio.create_task(producer.commit_transaction())
        await until(lambda: state_of(producer) is S.COMMITTING)
        await turns()
        await cluster.restart(3)
        await committing
    assert await values(cluster) == [b"kept"]


# --- refusals


@pytest.mark.parametrize("kind", [AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest])
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_fenced_on_the_way(explicit: FakeCluster, kind: type[AnyRequest], code: ErrorCode) -> None:
    explicit.fault(kind, error=code)
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        if kind is AddPartitionsToTxnRequest:
            with pytest.raises(ProducerFencedError) as raised:
                await producer.send("t", b"lost", partition=0)
            assert isinstance(raised.value, NotSentError)
            assert isinstance(raised.value.__cause__, ProducerFencedError)
        else:
            with pytest.raises(ProducerFencedError, match="'id'"):
                await producer.send_offsets_to_transaction(GROUP, "g")
        assert state_of(producer) is S.FATAL_ERROR
        with pytest.raises(ProducerFencedError, match=code.name):
            await producer.commit_transaction()
        with pytest.raises(ProducerFencedError):
            await producer.abort_transaction()
        with pytest.raises(ProducerFencedError):
            await producer.init_transactions()


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_fenced_at_a_record(cluster: FakeCluster, code: ErrorCode) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        cluster.fault(ProduceRequest, error=code)
        with pytest.raises(ProducerFencedError, match=code.name) as raised:
            await producer.send("t", b"lost", partition=0)
        assert isinstance(raised.value, RejectedError)
        assert isinstance(raised.value.__cause__, ProducerFencedError)
        assert isinstance(raised.value.__cause__.__cause__, BrokerError)
        assert str(raised.value).count("Hint:") == 1
        with pytest.raises(ProducerFencedError, match=code.name):
            await producer.send("t", b"never taken")
        with pytest.raises(ProducerFencedError, match=r"transaction\.timeout\.ms=60000"):
            await producer.commit_transaction()


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_every_waiter_gets_the_fencing_error(cluster: FakeCluster, code: ErrorCode) -> None:
    """In the family that is true of it: refused, or never sent; records whose topic is not known yet, too."""
    heard = Outcomes()
    async with transacting(cluster, batch_size=0) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"known", partition=0)
        refused = cluster.fault(ProduceRequest, hold=True, error=code, times=None)
        unknown = TopicPartition("new", -1)
        cluster.fault(MetadataRequest, error=ErrorCode.LEADER_NOT_AVAILABLE, partition=unknown, times=None)
        sending = asyncio.create_task(producer.send("t", b"refused", partition=0))
        await refused.reached.wait()
        behind = [producer.submit("t", b"%d" % n, partition=0) for n in range(10)]
        parked = [asyncio.create_task(producer.send("new", b"v")), producer.submit("new", b"v")]
        producer.send_nowait("new", b"v", on_delivery=heard)
        await turns()
        refused.release()
        failed: list[Any] = [sending, *behind, *parked]
        kinds = [type(error) for error in await asyncio.gather(*failed, return_exceptions=True)]
        assert all(issubclass(kind, ProducerFencedError) for kind in kinds)
        assert issubclass(kinds[0], RejectedError)
        assert issubclass(kinds[10], NotSentError)
        assert kinds[11] is ProducerFencedError, "a send() whose topic is not known yet is not accepted yet"
        assert issubclass(kinds[12], NotSentError)
        (error,) = heard.errors
        assert isinstance(error, NotSentError)
        assert isinstance(error, ProducerFencedError)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (again.topic, again.may_be_stored) == ("new", False)
        with pytest.raises(ProducerFencedError):
            await producer.send("t", b"never taken")
        report = await producer.close()
    assert report.delivered == 1
    assert report.rejected >= 1
    assert report.rejected + report.not_sent == 13


async def test_fenced_while_an_abort_waits_for_the_wire(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        held = cluster.fault(ProduceRequest, hold=True, error=ErrorCode.INVALID_PRODUCER_EPOCH)
        future = producer.submit("t", b"lost", partition=1)
        await held.reached.wait()
        aborting = asyncio.create_task(producer.abort_transaction())
        await turns()
        held.release()
        with pytest.raises(ProducerFencedError):
            await aborting
        with pytest.raises(RejectedError):
            await future
        assert state_of(producer) is S.FATAL_ERROR
    assert "EndTxn" not in seen(cluster)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, BrokerError),
    ],
)
@pytest.mark.parametrize("commits", [True, False])
async def test_ends_that_are_rejected(
    cluster: FakeCluster, code: ErrorCode, expected: type[AioprodError], commits: bool
) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"?", partition=0)
        cluster.fault(EndTxnRequest, error=code)
        call = producer.commit_transaction if commits else producer.abort_transaction
        for _ in range(2):
            with pytest.raises(expected, match="may be committed or not" if commits else code.name) as raised:
                await call()
            assert raised.value.may_be_stored is commits
            assert state_of(producer) is S.FATAL_ERROR
        with pytest.raises(expected) as raised:
            await producer.begin_transaction()
        assert raised.value.may_be_stored is False, "it says nothing of what would be sent now"


@pytest.mark.parametrize("version", [2, 1])
@in_simulated_time
async def test_a_commit_after_the_time_was_over(version: int) -> None:
    async with transactional(3, version) as cluster:
        async with transacting(cluster, transaction_timeout_ms=50) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"lost", partition=0)
            epoch = cluster.state.transactions["id"].epoch
            await until(lambda: cluster.state.transactions["id"].epoch > epoch)
            with pytest.raises(ProducerFencedError, match=r"transaction\.timeout\.ms=50") as raised:
                await producer.commit_transaction()
            assert raised.value.may_be_stored is ("may be committed or not" in raised.value.message)
        assert await values(cluster) == []


async def test_answers_that_make_no_sense_are_lost_ones(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        for kind in (InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest, TxnOffsetCommitRequest):
            cluster.fault(kind, reply=b"\x00\x00\x00\x05HTTP/")
        await producer.begin_transaction()
        await producer.send("t", b"kept", partition=0)
        await producer.send_offsets_to_transaction(GROUP, "g")
        await producer.commit_transaction()
    assert await values(cluster) == [b"kept"]
    cluster.end_faults()  # Not each version takes all steps.


async def test_a_commit_that_can_only_be_aborted(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        cluster.fault(EndTxnRequest, error=ErrorCode.TRANSACTION_ABORTABLE)
        with pytest.raises(TransactionAbortedError, match="TRANSACTION_ABORTABLE") as raised:
            await producer.commit_transaction()
        assert raised.value.may_be_stored is False
        assert state_of(producer) is S.ABORTABLE_ERROR
        await producer.abort_transaction()
        await work(producer, b"kept")
    assert await values(cluster) == [b"kept"]


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        (AddOffsetsToTxnRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (AddOffsetsToTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortedError),
        (TxnOffsetCommitRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (TxnOffsetCommitRequest, ErrorCode.ILLEGAL_GENERATION, TransactionAbortedError),
        (TxnOffsetCommitRequest, ErrorCode.FENCED_INSTANCE_ID, TransactionAbortedError),
        (TxnOffsetCommitRequest, ErrorCode.UNKNOWN_MEMBER_ID, TransactionAbortedError),
    ],
)
async def test_offsets_that_are_rejected(
    explicit: FakeCluster, kind: type[AnyRequest], code: ErrorCode, expected: type[AioprodError]
) -> None:
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        explicit.fault(kind, error=code)
        with pytest.raises(expected, match=code.name):
            await producer.send_offsets_to_transaction(GROUP, "g")
        with pytest.raises(TransactionAbortedError, match=code.name):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await work(producer, b"kept")
    assert await values(explicit) == [b"kept"]
    assert explicit.committed_offset("g", TopicPartition("t", 0)) is None


# --- the start


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, ConfigError),
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (ErrorCode.INVALID_REQUEST, BrokerError),
    ],
)
async def test_a_start_that_is_rejected(implicit: FakeCluster, code: ErrorCode, expected: type[AioprodError]) -> None:
    implicit.fault(InitProducerIdRequest, error=code)
    producer = new_producer(implicit.bootstrap, transactional_id="id")
    with pytest.raises(expected):
        await producer.start()


@in_simulated_time
async def test_a_start_without_a_coordinator() -> None:
    async with transactional(1, 2) as implicit:
        implicit.fault(FindCoordinatorRequest, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=None)
        producer = new_producer(implicit.bootstrap, transactional_id="id", max_block_ms=100)
        with pytest.raises(RequestTimedOutError, match="id"):
            await begin(producer)


async def test_it_can_be_closed_while_it_starts(implicit: FakeCluster) -> None:
    held = implicit.fault(InitProducerIdRequest, hold=True)
    producer = new_producer(implicit.bootstrap, transactional_id="id")
    starting = asyncio.create_task(producer.start())
    await held.reached.wait()
    await producer.close(0)
    held.release()
    with pytest.raises(ProducerClosedError):
        await starting


async def test_a_new_producer_ends_what_the_old_one_left_open(cluster: FakeCluster) -> None:
    async with transacting(cluster) as old:
        await old.begin_transaction()
        await old.send("t", b"lost", partition=0)
        async with transacting(cluster) as new:
            await work(new, b"kept")
            with pytest.raises(ProducerFencedError):
                await old.commit_transaction()
    assert await values(cluster) == [b"kept"]


# --- the end


async def test_close_aborts_what_is_open(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        future = producer.submit("t", b"lost too", partition=1)
        report = await producer.close()
        assert (report.delivered, report.not_sent) in ((1, 1), (2, 0))
        await asyncio.wait([future])
        future.exception()
    assert seen(cluster)[-1] == "EndTxn"
    assert await values(cluster) == []


async def test_close_waits_for_a_running_commit(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        held = cluster.fault(ProduceRequest, hold=True)
        producer.submit("t", b"kept", partition=0)
        committing = asyncio.create_task(producer.commit_transaction())
        await held.reached.wait()
        closing = asyncio.create_task(producer.close())
        await turns()
        held.release()
        report = await closing
        assert report.delivered == 1
        await committing
    assert await values(cluster) == [b"kept"]


async def test_close_does_not_take_longer_than_it_may(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        held = cluster.fault(EndTxnRequest, hold=True)
        aborting = asyncio.create_task(producer.abort_transaction())
        await held.reached.wait()
        with caplog.at_level(logging.WARNING):
            async with asyncio.timeout(10):
                await producer.close(0.05)
        assert "transaction.timeout.ms" in caplog.text
        with pytest.raises(ProducerClosedError):
            await aborting
        held.release()


async def test_close_at_once_leaves_the_transaction_to_the_broker(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"open", partition=0)
        await producer.close(0)
    assert "EndTxn" not in seen(cluster)
