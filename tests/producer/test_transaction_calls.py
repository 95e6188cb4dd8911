"""The calls of a transactional producer: those that are refused, and those that are interrupted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import Member, OffsetAndMetadata, Producer, TopicPartition, TransactionSession
from aioprod.errors import (
    FlushTimeoutError,
    RequestTimedOutError,
    TransactionAbortedError,
    UsageError,
)
from aioprod.messages import (
    EndTxnRequest,
    MetadataRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from tests.support.producers import running, turns, until
from tests.support.simulated import in_simulated_time
from tests.support.transactions import seen, state_of, transacting, transactional, values

S = TransactionState


# --- calls that are refused


async def test_calls_in_the_wrong_state(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.init_transactions()
        for call in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(UsageError, match="no transaction is open"):
                await call()
        for send in (producer.submit, producer.send_nowait):
            with pytest.raises(UsageError, match="no transaction is open"):
                send("t", b"outside")
        with pytest.raises(UsageError, match="no transaction is open"):
            await producer.send_many("t", [b"outside"])
        with pytest.raises(UsageError, match="no transaction is open"):
            await producer.send_offsets_to_transaction({}, "g")
        async with producer.transaction():
            for enter in (producer.begin_transaction, producer.transaction().__aenter__):
                with pytest.raises(UsageError, match="don't nest"):
                    await enter()
        await producer.flush()
        await producer.drain()
        assert len(await producer.partitions_for("t")) == 3


async def test_a_producer_without_transactions(cluster: FakeCluster) -> None:
    async with running(cluster) as producer:
        calls = (
            producer.init_transactions,
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.transaction().__aenter__,
        )
        for call in calls:
            with pytest.raises(UsageError, match=r"no transactional\.id"):
                await call()
    with pytest.raises(UsageError, match="closed"):
        await producer.begin_transaction()


@pytest.mark.parametrize(
    ("offsets", "group"),
    [
        ([("t", 0)], "g"),
        ({"t": 1}, "g"),
        ({("t", "0"): 1}, "g"),
        ({("t", 0): -1}, "g"),
        ({("t", 0): 1.0}, "g"),
        ({("t", 0): (1, "a note")}, "g"),
        ({("t", 0): OffsetAndMetadata(-1, "a note")}, "g"),
        ({("t", 0): 1}, ""),
        ({("t", 0): 1}, None),
        ({("t", 0): 1}, object()),
    ],
)
async def test_offsets_that_are_none(implicit: FakeCluster, offsets: Any, group: Any) -> None:
    async with transacting(implicit) as producer, producer.transaction():
        with pytest.raises(UsageError, match="give"):
            await producer.send_offsets_to_transaction(offsets, group)
        assert state_of(producer) is S.IN_TRANSACTION


async def test_a_note_is_committed_with_an_offset(cluster: FakeCluster) -> None:
    marker = TopicPartition("t", 0)
    async with transacting(cluster) as producer, TransactionSession(cluster.bootstrap, transactional_id="x") as session:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({marker: OffsetAndMetadata(7, "a note")}, "g")
        assert await session.committed_offsets("g", [marker]) == {marker: OffsetAndMetadata(7, "a note")}


# --- calls that are interrupted


async def test_a_commit_that_is_cancelled_before_end_txn(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        held = cluster.fault(ProduceRequest, hold=True)
        producer.submit("t", b"kept", partition=0)
        committing = asyncio.create_task(producer.commit_transaction())
        await held.reached.wait()
        with pytest.raises(UsageError, match="a commit is under way"):
            await producer.send("t", b"too late")
        with pytest.raises(UsageError, match="a commit is under way"):
            await producer.commit_transaction()
        committing.cancel()
        await asyncio.wait([committing])
        assert committing.cancelled()
        assert state_of(producer) is S.IN_TRANSACTION
        held.release()
        await producer.send("t", b"kept too", partition=0)
        await producer.commit_transaction()
    assert await values(cluster) == [b"kept", b"kept too"]


@pytest.mark.parametrize("version", [2, 1])
@in_simulated_time
async def test_a_commit_that_times_out_before_end_txn(version: int) -> None:
    async with transactional(3, version) as cluster:
        async with transacting(cluster, max_block_ms=200) as producer:
            await producer.begin_transaction()
            held = cluster.fault(ProduceRequest, hold=True)
            producer.submit("t", b"kept", partition=0)
            with pytest.raises(FlushTimeoutError) as raised:
                await producer.commit_transaction()
            assert raised.value.may_be_stored is False, "the transaction is open"
            assert state_of(producer) is S.IN_TRANSACTION
            held.release()
            await producer.flush()
            await producer.commit_transaction()
        assert await values(cluster) == [b"kept"]


async def test_a_block_that_is_cancelled_while_it_flushes_is_aborted(cluster: FakeCluster) -> None:
    async def submit(producer: Producer) -> None:
        async with producer.transaction():
            producer.submit("t", b"lost", partition=0)

    async with transacting(cluster) as producer:
        held = cluster.fault(ProduceRequest, hold=True)
        working = asyncio.create_task(submit(producer))
        await held.reached.wait()
        await turns()
        working.cancel()
        await until(lambda: state_of(producer) is S.ABORTING)
        held.release()
        await asyncio.wait([working])
        assert working.cancelled()
        assert state_of(producer) is S.READY
    assert await values(cluster) == []


@pytest.mark.parametrize("cancels", [True, False])
@pytest.mark.parametrize("version", [2, 1])
@in_simulated_time
async def test_a_commit_continues_after_end_txn(version: int, cancels: bool) -> None:
    async with transactional(3, version) as cluster:
        async with transacting(cluster, max_block_ms=60_000 if cancels else 300) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"kept", partition=0)
            held = cluster.fault(EndTxnRequest, hold=True)
            committing = asyncio.create_task(producer.commit_transaction())
            await held.reached.wait()
            if cancels:
                committing.cancel()
            await asyncio.wait([committing])
            if not cancels:
                error = committing.exception()
                assert isinstance(error, RequestTimedOutError)
                assert error.may_be_stored is True
            assert state_of(producer) is S.COMMITTING
            for call in (producer.begin_transaction, producer.abort_transaction):
                with pytest.raises(UsageError, match="continues"):
                    await call()
            held.release()
            await until(lambda: state_of(producer) is S.COMMITTED)
            with pytest.raises(UsageError, match="continues"):
                await producer.begin_transaction()
            await producer.commit_transaction()
            assert state_of(producer) is S.READY
            async with producer.transaction():
                await producer.send("t", b"kept too", partition=0)
        assert await values(cluster) == [b"kept", b"kept too"]


async def test_a_cancelled_abort_continues(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"lost", partition=0)
        held = cluster.fault(EndTxnRequest, hold=True)
        aborting = asyncio.create_task(producer.abort_transaction())
        await held.reached.wait()
        aborting.cancel()
        await asyncio.wait([aborting])
        assert state_of(producer) is S.ABORTING
        with pytest.raises(UsageError, match="being aborted"):
            await producer.send("t", b"too late")
        beginning = asyncio.create_task(producer.begin_transaction())
        await turns()
        held.release()
        await beginning
        await producer.send("t", b"kept", partition=0)
        await producer.commit_transaction()
    assert await values(cluster) == [b"kept"]


async def test_offsets_that_were_interrupted_fail_the_transaction(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        held = cluster.fault(TxnOffsetCommitRequest, hold=True)
        sending = asyncio.create_task(producer.send_offsets_to_transaction({TopicPartition("t", 0): 3}, "g"))
        await held.reached.wait()
        sending.cancel()
        await asyncio.wait([sending])
        held.release()
        with pytest.raises(TransactionAbortedError, match="'g'"):
            await producer.commit_transaction()
        await producer.abort_transaction()
    assert cluster.committed_offset("g", TopicPartition("t", 0)) is None


async def test_a_record_does_not_slip_into_the_next_transaction(cluster: FakeCluster) -> None:
    """A call that still waits when its transaction ends is refused, also when another one is open by then."""
    serializing, serialized = asyncio.Event(), asyncio.Event()

    async def serialize(value: bytes) -> bytes:
        if value == b"late":
            serializing.set()
            await serialized.wait()
        return value

    cluster.create_topic("u")
    async with transacting(cluster, value_serializer=serialize) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"kept", partition=0)
        late = [
            asyncio.create_task(producer.send("t", b"late", partition=0)),
            asyncio.create_task(producer.send_many("u", [b"kept", b"late"], partition=0)),
        ]
        await serializing.wait()
        await until(lambda: len(cluster.records("u", isolation="read_uncommitted")) == 1)
        await producer.commit_transaction()
        await producer.begin_transaction()
        serialized.set()
        for task in late:
            with pytest.raises(UsageError, match="has ended"):
                await task
        await producer.commit_transaction()
    assert await values(cluster) == [b"kept"]
    assert [record.value for record in cluster.records("u", isolation="read_committed")] == [b"kept"]


async def test_nor_do_those_of_a_call_that_waits_for_its_topic(cluster: FakeCluster) -> None:
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        asked = cluster.fault(MetadataRequest, hold=True)
        late = asyncio.create_task(producer.send_many("t", [b"late"] * 3, partition=0))
        await asked.reached.wait()
        await producer.commit_transaction()
        await producer.begin_transaction()
        asked.release()
        with pytest.raises(UsageError, match="has ended"):
            await late
        await producer.commit_transaction()
    assert await values(cluster, "read_uncommitted") == []


async def test_offsets_of_a_member_in_no_generation_raise(cluster: FakeCluster) -> None:
    """Brokers would take them for those of somebody who names the group only, and fence nobody."""
    member = Member(cluster.bootstrap, group_id="g", topics="t")
    async with transacting(cluster) as producer:
        await producer.begin_transaction()
        with pytest.raises(UsageError, match=r"group 'g' is in no generation of it.*has returned records"):
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, member.group_metadata)
        await producer.abort_transaction()
    assert "AddOffsetsToTxn" not in seen(cluster)
    assert "TxnOffsetCommit" not in seen(cluster)
