"""Transactions with coordinators before Kafka 2.5: no epoch for a living producer (KIP-360), no members (KIP-447)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aioprod import GroupMetadata, TopicPartition
from aioprod.errors import (
    BrokerError,
    ErrorCode,
    ProducerFencedError,
    RejectedError,
    UnknownOutcomeError,
    UnsupportedVersionError,
)
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.transactions import State
from tests.support.producers import ShiftedClock, pass_time, turns, until
from tests.support.transactions import seen, state_of, transacting, values, work

S = TransactionState
TP = TopicPartition("t", 0)
MEMBERS = (
    GroupMetadata("g", 1, "m"),
    GroupMetadata("g", 0),
    GroupMetadata("g", member_id="m"),
    GroupMetadata("g", group_instance_id="i"),
)


def epochs(cluster: FakeCluster) -> list[tuple[int, int]]:
    """Producer id and epoch that each InitProducerId request named, one that was asked again counts once."""
    found = [(one.producer_id, one.producer_epoch) for one in cluster.seen_of(InitProducerIdRequest)]
    return [one for one, before in zip(found, [None, *found], strict=False) if one != before]


# --- the offsets of a member


@pytest.mark.parametrize("member", MEMBERS)
async def test_a_member_that_can_not_be_fenced_commits_no_offsets(old: FakeCluster, member: GroupMetadata) -> None:
    async with transacting(old) as producer:
        await producer.begin_transaction()
        with pytest.raises(UnsupportedVersionError, match=r"2\.5") as caught:
            await producer.send_offsets_to_transaction({TP: 4}, member)
        assert "'g'" in caught.value.message
        assert "brokers from 2.5 on" in (caught.value.hint or "")
        assert state_of(producer) is S.ABORTABLE_ERROR
        await producer.abort_transaction()
        await work(producer, b"kept")
    assert not old.seen_of(TxnOffsetCommitRequest)
    assert old.committed_offset("g", TP) is None
    assert await values(old) == [b"kept"]


async def test_the_name_of_a_group_alone_will_do(old: FakeCluster) -> None:
    async with transacting(old) as producer, producer.transaction():
        await producer.send_offsets_to_transaction({TP: 4}, "g")
    await until(lambda: old.committed_offset("g", TP) == 4)
    assert old.seen_of(TxnOffsetCommitRequest)


async def test_the_version_of_the_coordinator_decides_whether_a_member_is_checked(old: FakeCluster) -> None:
    old[2].versions[TxnOffsetCommitRequest] = (0, 3)
    async with transacting(old) as producer:
        old.move_coordinator("g", 2)
        async with producer.transaction():
            await producer.send_offsets_to_transaction({TP: 4}, GroupMetadata("g"))
        old.move_coordinator("g", 3)
        await producer.begin_transaction()
        old.fault(TxnOffsetCommitRequest, node=2, error=ErrorCode.NOT_COORDINATOR)
        with pytest.raises(UnsupportedVersionError):
            await producer.send_offsets_to_transaction({TP: 5}, GroupMetadata("g", 1, "m"))
        await producer.abort_transaction()
    assert old.committed_offset("g", TP) == 4


# --- after a failure


@pytest.mark.parametrize("drop", ["before", "after", "lurking"])
@pytest.mark.parametrize(
    "kind", [AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest]
)
async def test_a_lost_connection_does_not_end_the_producer(old: FakeCluster, kind: Any, drop: Any) -> None:
    async with transacting(old) as producer:
        old.fault(kind, drop=drop)
        for number in range(3):
            await producer.begin_transaction()
            await producer.send("t", b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({TP: number}, "g")
            await producer.commit_transaction()
    assert await values(old) == [b"0", b"1", b"2"]
    await until(lambda: old.committed_offset("g", TP) == 2)
    assert epochs(old) == [(-1, -1)], "an old coordinator is asked as by a new producer"


@pytest.mark.parametrize("commits", [True, False])
async def test_an_end_that_comes_late_does_not_end_the_next_transaction(old: FakeCluster, commits: bool) -> None:
    async with transacting(old) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"first", partition=0)
        late = old.fault(EndTxnRequest, drop="lurking", hold=True)
        await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.begin_transaction()
        await producer.send("t", b"second", partition=0)
        late.release()
        await turns()
        assert old.state.transactions["id"].state is State.ONGOING
        await (producer.abort_transaction() if commits else producer.commit_transaction())
    assert await values(old) == [b"first" if commits else b"second"]


async def test_a_connection_that_could_not_be_made_lost_nothing(old: FakeCluster) -> None:
    async with transacting(old) as producer:
        await work(producer, b"0")
        coordinator = old.state.coordinator("id")
        assert coordinator is not None
        await old[coordinator].kill(stay_in_metadata=True)
        old.move_coordinator("id", coordinator % 3 + 1)
        old.move_leader("t", 0, coordinator % 3 + 1)
        await work(producer, b"1")
        await work(producer, b"2")
    assert len(old.seen_of(InitProducerIdRequest)) == 1, "no other epoch is needed"
    assert await values(old) == [b"0", b"1", b"2"]


async def test_a_record_that_is_rejected_does_not_end_the_producer(
    old: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with transacting(old) as producer:
        await work(producer, b"0")
        for number in (1, 2):
            old.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
            with pytest.raises(RejectedError):
                await work(producer, b"too large")
            await work(producer, b"%d" % number)
    assert await values(old) == [b"0", b"1", b"2"]
    assert "not aborted" not in caplog.text


async def test_a_record_that_was_lost_and_comes_late_is_kept_out(old: FakeCluster) -> None:
    """The leader has no open transaction then, and would take it as the first record of the next one."""
    clock = ShiftedClock()
    times = {"delivery_timeout_ms": 10_000, "request_timeout_ms": 9_000, "linger_ms": 0}
    async with transacting(old, clock=clock, **times) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"aborted", partition=0)
        late = old.fault(ProduceRequest, drop="lurking", hold=True)
        again = old.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=None)
        expiring = producer.submit("t", b"comes late", partition=0)
        await again.reached.wait()
        pass_time(producer, clock, 11)
        with pytest.raises(UnknownOutcomeError):
            await expiring
        again.times = again.hits
        await producer.abort_transaction()
        late.release()
        await turns()
        await work(producer, b"kept")
    assert await values(old) == [b"kept"]
    assert b"comes late" not in await values(old, "read_uncommitted")


async def test_a_coordinator_that_grows_old_between_two_transactions(old: FakeCluster) -> None:
    """A cluster in the middle of an upgrade: the coordinator moves from a new broker to an old one, and back."""
    old[1].versions[InitProducerIdRequest] = (0, 5)
    old.move_coordinator("id", 1)
    async with transacting(old) as producer:
        for number, node_id in enumerate((2, 1, 3, 1)):
            old.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
            await producer.begin_transaction()
            with pytest.raises(RejectedError):
                await producer.send("t", b"too large", partition=0)
            old.move_coordinator("id", node_id)
            await producer.abort_transaction()
            await work(producer, b"%d" % number)
    assert await values(old) == [b"0", b"1", b"2", b"3"]


# --- another producer takes over


async def test_a_replaced_producer_is_fenced_and_does_not_fence_the_other(old: FakeCluster) -> None:
    async with transacting(old) as producer:
        old.fault(EndTxnRequest, drop="after")
        await work(producer, b"0")
        async with transacting(old) as other:
            await other.begin_transaction()
            await other.send("t", b"1", partition=0)
            with pytest.raises(ProducerFencedError):
                await producer.begin_transaction()
            await other.commit_transaction()
    assert await values(old) == [b"0", b"1"]


async def test_a_producer_replaced_while_it_gets_another_epoch_is_fenced(old: FakeCluster) -> None:
    async with transacting(old) as producer:
        old.fault(EndTxnRequest, drop="after")
        await work(producer, b"0")
        asking = old.fault(InitProducerIdRequest, hold=True)
        beginning = asyncio.create_task(producer.begin_transaction())
        await asking.reached.wait()
        async with transacting(old) as other:
            await work(other, b"1")
        asking.release()
        with pytest.raises(ProducerFencedError, match=r"epoch 2 of producer id .* where epoch 1 of"):
            await beginning
        assert state_of(producer) is S.FATAL_ERROR
    assert await values(old) == [b"0", b"1"]


async def test_a_producer_replaced_before_its_abort_is_fenced(
    old: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with transacting(old) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"aborted", partition=0)
        old.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(RejectedError):
            await producer.send("t", b"too large", partition=0)
        async with transacting(old) as other:
            await work(other, b"1")
        with pytest.raises(ProducerFencedError):
            await producer.abort_transaction()
    assert await values(old) == [b"1"]


async def test_an_abort_is_no_less_one_when_the_producer_fails_after_it(
    explicit: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with transacting(explicit) as producer:
        explicit.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        explicit.fault(InitProducerIdRequest, error=ErrorCode.TRANSACTION_ABORTABLE)
        with caplog.at_level(logging.WARNING), pytest.raises(RejectedError):
            await work(producer, b"too large")
        assert "A transaction was aborted, but its producer has failed" in caplog.text
        with pytest.raises(BrokerError):
            await producer.begin_transaction()
    assert seen(explicit)[-2:] == ["EndTxn", "InitProducerId"]
