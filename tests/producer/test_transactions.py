"""Transactions against fake brokers of both transaction versions: what is sent, and what becomes of records."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import (
    AuthorizationError,
    ErrorCode,
    NotSentError,
    ProducerFencedError,
    RejectedError,
    TransactionAbortedError,
)
from aioprod.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.messages.produce import BatchIndexAndErrorMessage
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from aioprod.wire.schema import AnyRequest
from tests.support.producers import turns, until
from tests.support.simulated import in_simulated_time
from tests.support.transactions import seen, state_of, transacting, transactional, values, work

S = TransactionState


# --- what is sent


async def test_requests_of_version_2(implicit: FakeCluster) -> None:
    async with transacting(implicit) as producer:
        async with producer.transaction():
            await asyncio.gather(*(producer.send("t", b"v", partition=index) for index in range(3)))
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): 5}, "g")
        async with producer.transaction():
            await producer.send("t", b"v", partition=1)
    assert seen(implicit, ProduceRequest) == ["InitProducerId", "TxnOffsetCommit", "EndTxn"]
    assert [end.producer_epoch for end in implicit.seen_of(EndTxnRequest)] == [0, 1]
    assert {one.header.version >= 12 for one in implicit.seen if isinstance(one.message, ProduceRequest)} == {True}
    assert {request.transactional_id for request in implicit.seen_of(ProduceRequest)} == {"id"}
    assert implicit.committed_offset("g", TopicPartition("t", 0)) == 5


async def test_requests_of_version_1(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        async with producer.transaction():
            await asyncio.gather(*(producer.send("t", b"v", partition=index) for index in range(3)))
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): 5}, "g")
        async with producer.transaction():
            await producer.send("t", b"v", partition=1)
    first = ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
    assert seen(explicit, ProduceRequest) == ["InitProducerId", *first, "AddPartitionsToTxn", "EndTxn"]
    added, again, *_ = explicit.seen_of(AddPartitionsToTxnRequest)
    assert [topic.partitions for topic in added.v3_and_below_topics] == [(0, 1, 2)]
    assert [topic.partitions for topic in again.v3_and_below_topics] == [(1,)]
    versions = {one.message.NAME: one.header.version for one in explicit.seen}
    assert (versions["Produce"], versions["EndTxn"], versions["TxnOffsetCommit"]) == (11, 4, 4)
    assert {end.producer_epoch for end in explicit.seen_of(EndTxnRequest)} == {0}
    assert explicit.committed_offset("g", TopicPartition("t", 0)) == 5


async def test_nothing_is_ended_that_has_not_begun(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({}, "g")
    assert seen(cluster) == ["InitProducerId"]


async def test_the_level_is_looked_at_for_each_transaction(explicit: FakeCluster) -> None:
    async with transacting(explicit) as producer:
        async with producer.transaction():
            await producer.send("t", b"1", partition=0)
        explicit.finalize(2)
        await explicit.restart(1)
        async with producer.transaction():
            await producer.send("t", b"2", partition=0)
        await until(lambda: producer._engine.parts.client.feature("transaction.version") == 2)
        async with producer.transaction():
            await producer.send("t", b"3", partition=0)
    assert await values(explicit) == [b"1", b"2", b"3"]
    epochs = [end.producer_epoch for end in explicit.seen_of(EndTxnRequest)]
    assert epochs == sorted(epochs)
    assert [one.header.version for one in explicit.seen if isinstance(one.message, EndTxnRequest)][-1] == 5
    # A late request of the old rules must not get into a transaction of the new.
    assert {request.producer_epoch for request in explicit.seen_of(InitProducerIdRequest)} == {-1, 0}


@pytest.mark.parametrize(
    ("kind", "last"),
    [(ProduceRequest, 11), (TxnOffsetCommitRequest, 4), (EndTxnRequest, 4)],
    ids=["Produce", "TxnOffsetCommit", "EndTxn"],
)
async def test_the_level_counts_where_its_requests_are_offered(
    implicit: FakeCluster, kind: type[AnyRequest], last: int
) -> None:
    """As behind a proxy that hides the newest versions of requests, and passes on what the brokers have finalized."""
    implicit[1].versions[kind] = (3 if kind is ProduceRequest else 0, last)
    async with transacting(implicit) as producer:
        assert producer._engine.parts.client.feature("transaction.version") == 2
        for number in range(2):
            async with producer.transaction():
                await producer.send("t", b"%d" % number, partition=number)
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): number}, "g")
    assert await values(implicit) == [b"0", b"1"]
    assert seen(implicit).count("AddPartitionsToTxn") == 2
    assert {one.header.version for one in implicit.seen if isinstance(one.message, EndTxnRequest)} == {4}


# --- what becomes of records


async def test_commits_and_aborts(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        kept: list[bytes] = []
        for number in range(12):
            await producer.begin_transaction()
            for index in range(5):
                producer.send_nowait("t", b"%d-%d" % (number, index), partition=(number + index) % 3)
            if number % 3:
                await producer.commit_transaction()
                kept += [b"%d-%d" % (number, index) for index in range(5)]
            else:
                await producer.flush()
                await producer.abort_transaction()
            assert state_of(producer) is S.READY
    assert sorted(value or b"" for value in await values(cluster)) == sorted(kept)


async def test_an_exception_comes_out_unchanged(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        reason = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as raised:
            await work(producer, b"lost", error=reason)
        assert raised.value is reason
        assert state_of(producer) is S.READY
    assert await values(cluster) == []
    assert await values(cluster, "read_uncommitted") == [b"lost"]


@pytest.mark.parametrize("topic", ["t", "unknown"])
async def test_records_failed_by_an_abort_cause_no_warning(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, topic: str
) -> None:
    caplog.set_level(logging.DEBUG, "aioprod.producer")
    async with transacting(cluster, linger_ms=1_000_000, adaptive_linger=False) as producer:
        await producer.partitions_for("t")
        await producer.begin_transaction()
        producer.send_nowait(topic, b"given up")
        producer.submit(topic, b"dropped")
        kept = producer.submit(topic, b"kept")
        await producer.abort_transaction()
        with pytest.raises(NotSentError) as caught:
            await kept
        assert isinstance(caught.value.__cause__, TransactionAbortedError)
        assert caught.value.__cause__.on_purpose
    logged = [record for record in caplog.records if "never looked at" in record.message or "without" in record.message]
    assert [record.levelno for record in logged] == [logging.DEBUG] * 2


async def test_records_failed_by_a_failed_transaction_cause_a_warning(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with transacting(cluster, linger_ms=1_000_000, adaptive_linger=False) as producer:
        await producer.partitions_for("t")
        await producer.begin_transaction()
        cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
        producer.send_nowait("t", b"refused")
        await producer.flush()
        await producer.abort_transaction()
    (told,) = [record for record in caplog.records if "without on_delivery or future" in record.message]
    assert told.levelno == logging.WARNING


async def test_it_does_also_when_the_abort_fails(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    async with transacting(cluster) as producer:
        cluster.fault(EndTxnRequest, error=ErrorCode.PRODUCER_FENCED)
        with caplog.at_level(logging.WARNING), pytest.raises(ValueError, match="mine"):
            await work(producer, b"lost", error=ValueError("mine"))
        assert "was not aborted" in caplog.text
        with pytest.raises(ProducerFencedError):
            await producer.begin_transaction()


async def test_a_cancellation_aborts(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        working = asyncio.create_task(work(producer, b"lost", rest_s=3600))
        await until(lambda: cluster.records("t", isolation="read_uncommitted"))
        working.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await working
        assert state_of(producer) is S.READY
    assert await values(cluster) == []


async def test_unsent_records_fail(cluster: FakeCluster) -> None:
    async with transacting(
        cluster, linger_ms=3600_000, adaptive_linger=False, delivery_timeout_ms=2**31 - 1
    ) as producer:
        await producer.begin_transaction()
        futures = [producer.submit("t", b"lost", partition=index % 3) for index in range(300)]
        parked = producer.submit("unknown", b"lost")
        await producer.abort_transaction()
        for future in [*futures, parked]:
            with pytest.raises(NotSentError, match="aborted") as raised:
                await future
            assert isinstance(raised.value.__cause__, TransactionAbortedError)
        assert producer.buffered == (0, 0)
        async with producer.transaction():
            producer.submit("t", b"kept", partition=0)
    assert await values(cluster, "read_uncommitted") == [b"kept"]


async def test_what_is_on_the_wire_ends_by_its_answer(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        held = cluster.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"on its way", partition=0)
        await held.reached.wait()
        aborting = asyncio.create_task(producer.abort_transaction())
        await turns()
        assert not aborting.done()
        assert seen(cluster, ProduceRequest, AddPartitionsToTxnRequest) == ["InitProducerId"]
        held.release()
        await aborting
        assert (await future).offset == 0
    assert await values(cluster) == []


async def test_nothing_is_sent_again_once_the_transaction_is_lost(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        held = cluster.fault(ProduceRequest, hold=True, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        future = producer.submit("t", b"lost", partition=0)
        await held.reached.wait()
        aborting = asyncio.create_task(producer.abort_transaction())
        await turns()
        held.release()
        await aborting
        with pytest.raises(RejectedError, match="aborted"):
            await future
        assert len(cluster.seen_of(ProduceRequest)) == 1
        async with producer.transaction():
            await producer.send("t", b"kept", partition=0)
    assert await values(cluster) == [b"kept"]


# --- failures


async def test_a_record_that_fails_fails_the_transaction(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        for code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.TRANSACTION_ABORTABLE):
            await producer.begin_transaction()
            await producer.send("t", b"lost", partition=1)
            cluster.fault(ProduceRequest, error=code)
            with pytest.raises(RejectedError):
                await producer.send("t", b"lost", partition=0)
            assert state_of(producer) is S.ABORTABLE_ERROR
            with pytest.raises(TransactionAbortedError, match=code.name):
                await producer.send("t", b"never taken")
            with pytest.raises(TransactionAbortedError, match=code.name):
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
            with pytest.raises(TransactionAbortedError, match=code.name) as raised:
                await producer.commit_transaction()
            assert raised.value.hint is not None
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("t", b"kept", partition=0)
    assert await values(cluster) == [b"kept"] * 3


async def test_records_that_are_named_and_their_companions_fail_together(cluster: FakeCluster) -> None:
    """A transaction is lost with one record, so that the others of its batch are not sent again (KIP-467)."""

    def name_the_second(response: Any) -> Any:
        topic = response.responses[0]
        error = BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
        partition = replace(topic.partition_responses[0], record_errors=(error,))
        return replace(response, responses=(replace(topic, partition_responses=(partition,)),))

    async with transacting(cluster) as producer:
        await producer.partitions_for("t")
        await producer.begin_transaction()
        cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, edit=name_the_second)
        errors = await asyncio.gather(
            *(producer.send("t", b"lost", partition=0) for _ in range(3)), return_exceptions=True
        )
        assert [isinstance(error, RejectedError) for error in errors] == [True] * 3
        assert ["no key" in str(error) for error in errors] == [False, True, False]
        await producer.abort_transaction()
    assert await values(cluster, "read_uncommitted") == []


async def test_a_record_that_fails_during_the_commit(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        cluster.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE, partition=TopicPartition("t", 0), times=2)
        block = producer.transaction()
        await block.__aenter__()
        future = producer.submit("t", b"lost", partition=0)
        producer.submit("t", b"lost", partition=1)
        with pytest.raises(TransactionAbortedError):
            await block.__aexit__(None, None, None)
        assert state_of(producer) is S.READY
        with pytest.raises(RejectedError):
            await future
        async with producer.transaction():
            await producer.send("t", b"kept", partition=2)
    assert await values(cluster) == [b"kept"]


@pytest.mark.parametrize("version", [2, 1])
@in_simulated_time
async def test_a_record_whose_topic_is_not_found_fails_the_transaction(version: int) -> None:
    async with transactional(3, version) as cluster:
        cluster.state.auto_create = False
        async with transacting(cluster, max_block_ms=100) as producer:
            await producer.begin_transaction()
            future = producer.submit("unknown", b"lost")
            await asyncio.wait([future])
            with pytest.raises(TransactionAbortedError, match="unknown"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            with pytest.raises(NotSentError):
                await future


async def test_other_records_fail_with_the_first(explicit: FakeCluster) -> None:
    """What waits for the coordinator to know its partition must not wait for its own deadline."""
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        explicit.fault(AddPartitionsToTxnRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(NotSentError, match="the transaction has failed") as raised:
            await producer.send("t", b"lost", partition=0)
        assert isinstance(raised.value.__cause__, TransactionAbortedError)
        assert isinstance(raised.value.__cause__.__cause__, AuthorizationError)
        with pytest.raises(TransactionAbortedError, match="TOPIC_AUTHORIZATION_FAILED"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"kept", partition=0)
    assert await values(explicit) == [b"kept"]


async def test_a_lost_sequence_requests_a_new_epoch(explicit: FakeCluster) -> None:
    """Version 1 keeps the epoch over transactions, so a hole in the numbers needs another one (KIP-360)."""
    async with transacting(explicit) as producer:
        await producer.begin_transaction()
        explicit.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(RejectedError):
            await producer.send("t", b"lost", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"kept", partition=0)
    first, *_, second = explicit.seen_of(InitProducerIdRequest)
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    assert (second.producer_id, second.producer_epoch) == (explicit.seen_of(EndTxnRequest)[0].producer_id, 0)
    assert [end.producer_epoch for end in explicit.seen_of(EndTxnRequest)][-1] == 1
