from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioprod.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    ProducerFencedError,
    ProtocolError,
    RequestTimedOutError,
    TransactionAbortedError,
    TransactionUnknownError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.group import GroupMetadata
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.messages.describe_transactions import TransactionState
from aioprod.producer.transactions import session as session_module
from aioprod.producer.transactions.status import status_of
from aioprod.testing import FakeCluster
from aioprod.transactions import TransactionHandle, TransactionSession, TransactionSessionConfig, TransactionStatus
from aioprod.types import OffsetAndMetadata, TopicPartition

PLACE = TopicPartition("source", 0)
OTHER = TopicPartition("source", 1)
FAST = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5}


def new_session(cluster: FakeCluster, **options: Any) -> TransactionSession:
    """A session that is not started."""
    return TransactionSession(cluster.bootstrap, **({"transactional_id": "load"} | FAST | options))


@contextlib.asynccontextmanager
async def cluster_and_session(
    version: int = 2, **options: Any
) -> AsyncIterator[tuple[FakeCluster, TransactionSession]]:
    """A running session on a cluster with the topic that offsets are of."""
    async with FakeCluster(3, transaction_version=version) as cluster:
        cluster.create_topic("source", 2)
        async with new_session(cluster, **options) as session:
            yield cluster, session


async def time_out(cluster: FakeCluster, session: TransactionSession) -> None:
    """What happens after transaction.timeout.ms."""
    transactions = cluster.state.transactions
    transactions._fence(transactions["load"])
    assert session.handle is not None
    while await session.status(session.handle) is not TransactionStatus.ABORTED:
        await asyncio.sleep(0.001)


both_versions = pytest.mark.parametrize("version", [1, 2])


# -- the way it goes -------------------------------------------------------------------------------------------------


@both_versions
async def test_offsets_are_committed_with_the_transaction(version: int) -> None:
    async with cluster_and_session(version) as (cluster, session):
        handle = await session.begin()
        assert handle == TransactionHandle("load", handle.producer_id, 0, version, 60_000)
        assert session.handle == handle
        await session.send_offsets({PLACE: 5, OTHER: OffsetAndMetadata(7, "query 3")}, "load-marker")
        assert cluster.committed_offset("load-marker", PLACE) is None
        await session.commit()
        assert await session.committed_offsets("load-marker", [PLACE, OTHER]) == {
            PLACE: OffsetAndMetadata(5),
            OTHER: OffsetAndMetadata(7, "query 3"),
        }
        explicit = len(cluster.seen_of(AddOffsetsToTxnRequest))
        assert explicit == (1 if version == 1 else 0)
        [sent] = cluster.seen_of(TxnOffsetCommitRequest)
        assert (sent.generation_id_or_member_epoch, sent.member_id, sent.group_instance_id) == (-1, "", None)


@both_versions
async def test_the_last_offsets_win_and_an_abort_leaves_the_old_ones(version: int) -> None:
    async with cluster_and_session(version) as (_, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        await session.send_offsets({PLACE: 6}, "marker")
        await session.commit()
        await session.begin()
        await session.send_offsets({PLACE: 7}, "marker")
        await session.abort()
        assert await session.committed_offsets("marker", [PLACE, OTHER]) == {PLACE: OffsetAndMetadata(6), OTHER: None}


@both_versions
async def test_each_transaction_has_an_epoch_of_its_own(version: int) -> None:
    async with cluster_and_session(version) as (_, session):
        epochs = []
        for _ in range(3):
            epochs.append((await session.begin()).epoch)
            await session.send_offsets({PLACE: 5}, "marker")
            await session.commit()
        assert epochs == ([0, 2, 4] if version == 2 else [0, 1, 2])


@both_versions
async def test_begin_aborts_what_was_left_open(version: int) -> None:
    async with cluster_and_session(version) as (cluster, session):
        left = await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        async with new_session(cluster) as other:
            handle = await other.begin()
            assert handle.epoch == left.epoch + 2
            assert await other.committed_offsets("marker", [PLACE]) == {PLACE: None}
            assert await other.status(left) is TransactionStatus.TAKEN_OVER
            assert await other.status(handle) is TransactionStatus.OPEN


def test_a_handle_may_be_pickled() -> None:
    handle = TransactionHandle("load", 7, 3, 1, 60_000)
    assert pickle.loads(pickle.dumps(handle)) == handle
    assert not handle.is_implicit


@both_versions
async def test_an_abort_of_nothing_is_no_error(version: int) -> None:
    async with cluster_and_session(version) as (_, session):
        await session.begin()
        await session.abort()
        assert session.handle is None


async def test_a_member_of_the_group_may_be_named() -> None:
    async with cluster_and_session() as (cluster, session):
        await session.begin()
        with pytest.raises(TransactionAbortedError, match="can only be aborted"):
            await session.send_offsets({PLACE: 5}, GroupMetadata("readers", 3, "member", "instance"))
        [sent] = cluster.seen_of(TxnOffsetCommitRequest)
        assert (sent.generation_id_or_member_epoch, sent.member_id, sent.group_instance_id) == (3, "member", "instance")


# -- what is committed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 8, 9])
async def test_offsets_are_had_in_each_version_that_knows_of_transactions(version: int) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("source", 2)
        cluster[1].versions[OffsetFetchRequest] = (1, version)
        async with new_session(cluster) as session:
            await session.begin()
            await session.send_offsets({PLACE: 5}, "marker")
            await session.commit()
            assert await session.committed_offsets("marker", [PLACE, PLACE]) == {PLACE: OffsetAndMetadata(5)}


async def test_the_level_counts_where_its_requests_are_offered() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("source", 2)
        cluster[1].versions[ProduceRequest] = (3, 11)
        async with new_session(cluster) as session:
            assert not (await session.begin()).is_implicit
            await session.send_offsets({PLACE: 5}, "marker")
            await session.commit()
            assert await session.committed_offsets("marker", [PLACE]) == {PLACE: OffsetAndMetadata(5)}


async def test_older_brokers_do_not_know_what_is_committed() -> None:
    async with FakeCluster() as cluster:
        cluster[1].versions[OffsetFetchRequest] = (1, 6)
        async with new_session(cluster) as session:
            with pytest.raises(UnsupportedVersionError, match=r"older than 2\.5"):
                await session.committed_offsets("marker", [PLACE])


async def test_offsets_in_a_transaction_are_waited_for() -> None:
    async with cluster_and_session() as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        async with new_session(cluster, transactional_id="other") as other:
            asking = asyncio.create_task(other.committed_offsets("marker", [PLACE]))
            while len(cluster.seen_of(OffsetFetchRequest)) < 3:
                await asyncio.sleep(0.001)
            assert not asking.done()
            await session.commit()
            assert await asking == {PLACE: OffsetAndMetadata(5)}


async def test_the_error_of_a_hanging_transaction_names_the_tool() -> None:
    async with cluster_and_session() as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        async with new_session(cluster, transactional_id="other") as other:
            other._session.timeout_s = 3.0
            with pytest.raises(RequestTimedOutError, match=r"source-0 was not stable in time") as caught:
                await other.committed_offsets("marker", [PLACE])
            assert "kafka-transactions.sh find-hanging" in str(caught.value)


async def test_rejected_offsets() -> None:
    async with cluster_and_session() as (cluster, session):
        cluster.fault(OffsetFetchRequest, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError, match="GROUP_AUTHORIZATION_FAILED") as denied:
            await session.committed_offsets("marker", [PLACE])
        assert denied.value.resource == "marker"
        cluster.fault(OffsetFetchRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=PLACE)
        with pytest.raises(AuthorizationError) as topic_denied:
            await session.committed_offsets("marker", [PLACE])
        assert topic_denied.value.resource == "source"
        cluster.fault(OffsetFetchRequest, error=ErrorCode.INVALID_GROUP_ID)
        with pytest.raises(BrokerError, match="INVALID_GROUP_ID"):
            await session.committed_offsets("marker", [PLACE])
        cluster.fault(OffsetFetchRequest, edit=lambda _: OffsetFetchResponse())
        with pytest.raises(ProtocolError, match="does not contain source-0"):
            await session.committed_offsets("marker", [PLACE])


# -- the end ---------------------------------------------------------------------------------------------------------


@both_versions
@pytest.mark.parametrize("drop", ["before", "after"])
async def test_a_commit_with_a_lost_answer_is_retried(version: int, drop: str) -> None:
    async with cluster_and_session(version) as (cluster, session):
        handle = await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        cluster.fault(EndTxnRequest, drop=drop, times=2)
        await session.commit()
        ends = cluster.seen_of(EndTxnRequest)
        assert len(ends) >= 3
        assert {(end.producer_id, end.producer_epoch) for end in ends} == {(handle.producer_id, handle.epoch)}
        assert await session.committed_offsets("marker", [PLACE]) == {PLACE: OffsetAndMetadata(5)}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ],
)
async def test_a_commit_is_patient(code: ErrorCode) -> None:
    async with cluster_and_session() as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        cluster.fault(EndTxnRequest, error=code, times=3)
        await session.commit()
        assert len(cluster.seen_of(EndTxnRequest)) == 4


@both_versions
async def test_a_commit_after_a_rival_took_over_is_unknown(version: int) -> None:
    async with cluster_and_session(version) as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        async with new_session(cluster) as rival:
            await rival.begin()
        with pytest.raises(TransactionUnknownError, match="was committed is not known") as caught:
            await session.commit()
        assert caught.value.status is TransactionStatus.TAKEN_OVER
        assert caught.value.code == ErrorCode.PRODUCER_FENCED
        assert "committed_offsets() show" in str(caught.value)
        with pytest.raises(TransactionUnknownError):
            await session.abort()


@both_versions
async def test_a_commit_after_the_time_out_is_unknown_and_the_coordinator_says_why(version: int) -> None:
    async with cluster_and_session(version, transaction_timeout_ms=4321) as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        await time_out(cluster, session)
        with pytest.raises(TransactionAbortedError, match="was aborted, by its time-out") as lost:
            await session.send_offsets({PLACE: 6}, "marker")
        assert "transaction.timeout.ms=4321" in str(lost.value)
        with pytest.raises(TransactionUnknownError) as caught:
            await session.commit()
        assert caught.value.status is TransactionStatus.ABORTED
        await session.begin()
        assert await session.committed_offsets("marker", [PLACE]) == {PLACE: None}
        assert cluster.committed_offset("marker", PLACE) is None


@both_versions
async def test_a_commit_without_an_answer_in_time_is_unknown(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_EXTRA_S", 20.0)
    async with cluster_and_session(version) as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        session._session.timeout_s = 3.0
        cluster.fault(EndTxnRequest, drop="after", times=None)
        with pytest.raises(TransactionUnknownError) as caught:
            await session.commit()
        assert (caught.value.code, caught.value.status) == (None, TransactionStatus.COMMITTED)
        session._session.timeout_s = 60.0
        assert await session.committed_offsets("marker", [PLACE]) == {PLACE: OffsetAndMetadata(5)}


async def test_an_unknown_commit_may_be_tried_again() -> None:
    async with cluster_and_session() as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        cluster.fault(EndTxnRequest, error=ErrorCode.UNKNOWN_SERVER_ERROR)
        with pytest.raises(TransactionUnknownError, match="it is open") as caught:
            await session.commit()
        assert caught.value.status is TransactionStatus.OPEN
        await session.commit()
        assert await session.committed_offsets("marker", [PLACE]) == {PLACE: OffsetAndMetadata(5)}


async def test_an_empty_commit_raises() -> None:
    async with cluster_and_session() as (_, session):
        await session.begin()
        with pytest.raises(TransactionUnknownError) as caught:
            await session.commit()
        assert caught.value.code == ErrorCode.INVALID_TXN_STATE


@both_versions
async def test_an_abort_after_the_time_out_is_done_already(version: int) -> None:
    async with cluster_and_session(version) as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        await time_out(cluster, session)
        await session.abort()
        assert session.handle is None


@both_versions
async def test_a_rival_is_distinguished_from_a_time_out(version: int) -> None:
    async with cluster_and_session(version) as (cluster, session):
        await session.begin()
        await session.send_offsets({PLACE: 5}, "marker")
        async with new_session(cluster) as rival:
            await rival.begin()
        with pytest.raises(ProducerFencedError, match="took over") as caught:
            await session.send_offsets({PLACE: 6}, "marker")
        assert caught.value.__cause__ is not None
        with pytest.raises(ProducerFencedError, match="took over"):
            await session.abort()


# -- refusals --------------------------------------------------------------------------------------------------------


async def test_other_errors_are_raised_as_they_are() -> None:
    async with cluster_and_session() as (cluster, session):
        cluster.fault(InitProducerIdRequest, error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError):
            await session.begin()
        assert session.handle is None
        await session.begin()
        cluster.fault(TxnOffsetCommitRequest, error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError):
            await session.send_offsets({PLACE: 5}, "marker")
        cluster.fault(EndTxnRequest, error=ErrorCode.UNKNOWN_SERVER_ERROR)
        with pytest.raises(BrokerError, match="UNKNOWN_SERVER_ERROR"):
            await session.abort()
        await session.abort()


async def test_a_coordinator_that_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_EXTRA_S", 0.02)
    async with cluster_and_session() as (cluster, session):
        handle = await session.begin()
        cluster.fault(DescribeTransactionsRequest, error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        assert await session.status(handle) is TransactionStatus.NOT_KNOWN
        cluster.fault(DescribeTransactionsRequest, edit=lambda _: DescribeTransactionsResponse())
        assert await session.status(handle) is TransactionStatus.NOT_KNOWN
        cluster.fault(DescribeTransactionsRequest, error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        cluster.fault(EndTxnRequest, error=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        with pytest.raises(BrokerError, match="INVALID_PRODUCER_ID_MAPPING"):
            await session.abort()
        cluster.fault(DescribeTransactionsRequest, drop="before", times=None)
        session._session.timeout_s = 3.0
        cluster.fault(TxnOffsetCommitRequest, error=ErrorCode.INVALID_TXN_STATE)
        with pytest.raises(BrokerError, match="INVALID_TXN_STATE"):
            await session.send_offsets({PLACE: 5}, "marker")


async def test_a_transactional_id_that_has_expired() -> None:
    async with cluster_and_session() as (_, session):
        assert await session.status(TransactionHandle("forgotten", 7, 3, 2, 60_000)) is TransactionStatus.NOT_KNOWN


def test_a_session_takes_a_configuration() -> None:
    config = TransactionSessionConfig.from_options(bootstrap_servers="localhost:9092", transactional_id="load")
    assert TransactionSession(config=config, transaction_timeout_ms=5).config.transaction_timeout_ms == 5


async def test_a_session_is_used_in_its_order() -> None:
    async with FakeCluster() as cluster:
        with pytest.raises(ConfigError, match=r"transactional\.id is not given"):
            TransactionSession(cluster.bootstrap)
        session = new_session(cluster)
        with pytest.raises(UsageError, match="not started"):
            await session.begin()
        async with session:
            for call in (session.commit, session.abort):
                with pytest.raises(UsageError, match="no transaction was begun"):
                    await call()
            with pytest.raises(UsageError, match=r"send_offsets\(\) can't be called"):
                await session.send_offsets({PLACE: 5}, "marker")
        with pytest.raises(UsageError, match="closed"):
            await session.begin()


# -- how it stands ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "state", "standing"),
    [
        (5, "Empty", TransactionStatus.OPEN),
        (5, "Ongoing", TransactionStatus.OPEN),
        (5, "CompleteCommit", TransactionStatus.COMMITTED),
        (5, "PrepareCommit", TransactionStatus.COMMITTED),
        (5, "CompleteAbort", TransactionStatus.ABORTED),
        (6, "CompleteCommit", TransactionStatus.COMMITTED),
        (6, "PrepareEpochFence", TransactionStatus.ABORTED),
        (6, "CompleteAbort", TransactionStatus.ABORTED),
        (6, "Empty", TransactionStatus.TAKEN_OVER),
        (6, "Ongoing", TransactionStatus.TAKEN_OVER),
        (7, "CompleteAbort", TransactionStatus.TAKEN_OVER),
        (7, "Empty", TransactionStatus.TAKEN_OVER),
        (4, "Empty", TransactionStatus.NOT_KNOWN),
        (5, "Dead", TransactionStatus.NOT_KNOWN),
    ],
)
def test_how_it_stands(epoch: int, state: str, standing: TransactionStatus) -> None:
    handle = TransactionHandle("load", 7, 5, 2, 60_000)
    described = TransactionState(transaction_state=state, producer_id=7, producer_epoch=epoch)
    assert status_of(handle, described) is standing
    other = TransactionState(transaction_state=state, producer_id=8, producer_epoch=epoch)
    assert status_of(handle, other) is TransactionStatus.TAKEN_OVER
