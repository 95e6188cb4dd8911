"""Offsets of a member that are committed with a transaction are those of the topics that it reads (KIP-1319)."""

from __future__ import annotations

import asyncio
import pickle
from uuid import UUID

import pytest

from aioprod import Producer
from aioprod.errors import BrokerError, ErrorCode, TransactionAbortedError
from aioprod.group import Member
from aioprod.group.membership import ReadingMember
from aioprod.messages import TxnOffsetCommitRequest
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.transactions import COMPLETING
from aioprod.transactions import TransactionSession
from aioprod.types import GroupMetadata, TopicPartition
from tests.support.producers import until
from tests.support.sessions import FAST
from tests.support.stored_batches import fill
from tests.support.transactions import transacting, transactional

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member_of(cluster: FakeCluster, group: str = "g") -> Member:
    return Member(cluster.bootstrap, group_id=group, topics="t", auto_offset_reset="earliest", **FAST)


def reading(cluster: FakeCluster, *partitions: TopicPartition) -> ReadingMember:
    """The metadata of a group without members, and the ids that topics have now."""
    return ReadingMember.of(GroupMetadata("g"), {tp: cluster.topics[tp.topic].id for tp in partitions})


def sent(cluster: FakeCluster) -> list[list[tuple[str, UUID]]]:
    """Name and id of the topics of each TxnOffsetCommit."""
    return [[(topic.name, topic.topic_id) for topic in one.topics] for one in cluster.seen_of(TxnOffsetCommitRequest)]


async def committed(cluster: FakeCluster) -> dict[TopicPartition, int]:
    """What the group has once the coordinator has written its markers."""
    await until(lambda: all(one.state not in COMPLETING for one in cluster.state.transactions.values()))
    return {tp: one.offset for tp, one in cluster.state.groups["g"].offsets.items()}


async def test_a_members_offsets_are_committed_by_topic_id() -> None:
    async with transactional(1, 2) as cluster:
        fill(cluster.topics["t"].partitions[0], 3)
        async with member_of(cluster) as member, Producer(cluster.bootstrap, transactional_id="id") as producer:
            record = await anext(member)
            async with producer.transaction():
                await producer.send_offsets_to_transaction({T0: record.offset + 1}, member.group_metadata)
        assert sent(cluster) == [[("", cluster.topics["t"].id)]]
        assert await committed(cluster) == {T0: 1}


async def test_a_topic_that_is_created_again_gets_none_of_them() -> None:
    async with transactional(1, 2) as cluster:
        fill(cluster.topics["t"].partitions[0], 3)
        async with member_of(cluster) as member, Producer(cluster.bootstrap, transactional_id="id") as producer:
            record = await anext(member)
            cluster.recreate_topic("t")
            await producer.begin_transaction()
            await producer.send("t", b"made of it")
            with pytest.raises(TransactionAbortedError, match="UNKNOWN_TOPIC_ID") as no:
                await producer.send_offsets_to_transaction({T0: record.offset + 1}, member.group_metadata)
            await producer.abort_transaction()
        assert isinstance(no.value.__cause__, BrokerError)
        assert "in the transaction: what was read of t is deleted." in no.value.message
        assert len(sent(cluster)) == 5
        assert await committed(cluster) == {}
        assert cluster.records("t", isolation="read_committed") == []


async def test_nor_does_a_request_that_was_in_flight_meanwhile() -> None:
    async with transactional(1, 2) as cluster, transacting(cluster) as producer:
        held = cluster.fault(TxnOffsetCommitRequest, hold=True, drop="after")
        await producer.begin_transaction()
        sending = asyncio.create_task(producer.send_offsets_to_transaction({T0: 5}, reading(cluster, T0)))
        await held.reached.wait()
        cluster.recreate_topic("t")
        held.release()
        with pytest.raises(TransactionAbortedError, match="UNKNOWN_TOPIC_ID"):
            await sending
        await producer.abort_transaction()
        assert await committed(cluster) == {}


async def test_an_id_that_brokers_learn_is_tried_again() -> None:
    async with transactional(1, 2) as cluster, transacting(cluster) as producer:
        cluster.fault(TxnOffsetCommitRequest, times=3, error=ErrorCode.UNKNOWN_TOPIC_ID)
        async with producer.transaction():
            await producer.send_offsets_to_transaction({T0: 5}, reading(cluster, T0))
        assert await committed(cluster) == {T0: 5}


@pytest.mark.parametrize(("versions", "last"), [((0, 5), 5), ((0, 4), 4)])
async def test_older_brokers_get_names(versions: tuple[int, int], last: int) -> None:
    async with transactional(1, 2 if last == 5 else 1) as cluster:
        cluster[1].versions[TxnOffsetCommitRequest] = versions
        async with transacting(cluster) as producer, producer.transaction():
            await producer.send_offsets_to_transaction({T0: 5, T1: 6}, reading(cluster, T0, T1))
        assert sent(cluster) == [[("t", UUID(int=0))]]
        assert await committed(cluster) == {T0: 5, T1: 6}


async def test_transactions_of_version_1_have_names() -> None:
    """A request by id would add the group to the transaction by itself, which brokers of that version don't do."""
    async with transactional(1, 1) as cluster, transacting(cluster) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({T0: 5}, reading(cluster, T0))
        assert sent(cluster) == [[("t", UUID(int=0))]]


@pytest.mark.parametrize("known", [(), (T0,)])
async def test_all_topics_are_named_if_the_id_of_one_is_not_known(known: tuple[TopicPartition, ...]) -> None:
    async with transactional(1, 2) as cluster, transacting(cluster) as producer:
        cluster.create_topic("u")
        async with producer.transaction():
            offsets = {T0: 5, TopicPartition("u", 0): 6}
            await producer.send_offsets_to_transaction(offsets, reading(cluster, *known))
        assert sent(cluster) == [[("t", UUID(int=0)), ("u", UUID(int=0))]]


async def test_a_group_that_is_given_by_its_name_has_no_ids() -> None:
    async with transactional(1, 2) as cluster, transacting(cluster) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({T0: 5}, "g")
        assert sent(cluster) == [[("t", UUID(int=0))]]


async def test_a_session_commits_by_topic_id() -> None:
    async with transactional(1, 2) as cluster, TransactionSession(cluster.bootstrap, transactional_id="s") as session:
        await session.begin()
        await session.send_offsets({T0: 5, T1: (6, "note")}, reading(cluster, T0, T1))
        await session.commit()
        assert sent(cluster) == [[("", cluster.topics["t"].id)]]
        assert await committed(cluster) == {T0: 5, T1: 6}


def test_the_metadata_of_a_member_compare_as_before_and_can_be_pickled() -> None:
    made = ReadingMember.of(GroupMetadata("g", 3, "me"), {T0: UUID(int=7)})
    assert made == GroupMetadata("g", 3, "me")
    again = pickle.loads(pickle.dumps(made))
    assert (again, again.topic_ids) == (made, {T0: UUID(int=7)})
    assert GroupMetadata("g").topic_ids == {}
