from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioprod.errors import AuthorizationError, BrokerError, CorruptRecordError, ErrorCode, ProtocolError
from aioprod.group.fetcher import Fetcher
from aioprod.messages import FetchRequest, FetchResponse, ListOffsetsRequest, MetadataRequest
from aioprod.messages.fetch import EpochEndOffset
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.fetchers import given, places, running_fetcher, take, take_all, until
from tests.support.stored_batches import fill, store, stored_batch

TOPIC = "orders"
FIRST = TopicPartition(TOPIC, 0)
OTHER = TopicPartition("clicks", 0)


# --- brokers


async def test_leaders_that_move_and_connections_that_break() -> None:
    async with FakeCluster(3) as brokers, running_fetcher(brokers, max_partition_fetch_bytes=1) as fetcher:
        for partition in brokers.create_topic(TOPIC, 6).partitions:
            fill(partition, 20)
        brokers.fault(FetchRequest, node=1, drop="after", times=2)
        brokers.fault(FetchRequest, node=2, error=ErrorCode.UNKNOWN_SERVER_ERROR)
        fetcher.add({TopicPartition(TOPIC, index): 0 for index in range(6)})
        found = []
        for index, leader in [(0, 2), (1, 3), (0, 1), (5, 1), (2, 1)]:
            found += await take(fetcher, 10)
            brokers.move_leader(TOPIC, index, leader)
        found += await take(fetcher, 70)
        assert places(found) == {TopicPartition(TOPIC, index): list(range(20)) for index in range(6)}


async def test_brokers_that_die_and_come_back() -> None:
    async with FakeCluster(2) as brokers, running_fetcher(brokers, max_partition_fetch_bytes=1) as fetcher:
        for partition in brokers.create_topic(TOPIC, 2).partitions:
            fill(partition, 20)
        fetcher.add({TopicPartition(TOPIC, index): 0 for index in range(2)})
        found = []
        for node_id in (1, 2):
            found += await take(fetcher, 5)
            await brokers.kill(node_id)
            found += await take(fetcher, 5)
            await brokers[node_id].start()
        found += await take(fetcher, 20)
        assert places(found) == {TopicPartition(TOPIC, index): list(range(20)) for index in range(2)}


async def test_it_waits_for_a_leader_as_long_as_it_takes() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fetcher._session.timeout_s = 0.001
        fill(brokers.create_topic(TOPIC).partitions[0], 2)
        brokers.state.move_leader(FIRST, None)
        fetcher.add({FIRST: 1})
        waiting = asyncio.ensure_future(fetcher.next())
        # It has looked for the leader again, longer than its time.
        await until(lambda: len(brokers.seen_of(MetadataRequest)) > 4)
        brokers.state.move_leader(FIRST, 1)
        assert (await given(waiting)).offset == 1
        assert not brokers.errors


async def test_a_broker_that_hangs_is_left_when_others_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.calls.leaders._REFRESH_S", 0.01)
    async with FakeCluster(2) as brokers, running_fetcher(brokers) as fetcher:
        for partition in brokers.create_topic(TOPIC, 3).partitions:
            fill(partition, 2)
        held = brokers.fault(FetchRequest, node=1, hold=True)
        gone = TopicPartition(TOPIC, 2)
        fetcher.add({FIRST: 1, gone: 1})
        waiting = asyncio.ensure_future(fetcher.next())
        await held.reached.wait()
        # What is not read any more is no reason to wait for it.
        fetcher.drop([gone])
        brokers.move_leader(TOPIC, 0, 2)
        assert (await given(waiting)).offset == 1
        held.release()


def edited(**fields: Any) -> Callable[[FetchResponse], FetchResponse]:
    """Answers whose partitions have these fields, and no records."""

    def edit(answer: FetchResponse) -> FetchResponse:
        topics = [
            replace(topic, partitions=tuple(replace(row, records=None, **fields) for row in topic.partitions))
            for topic in answer.responses
        ]
        return replace(answer, responses=tuple(topics))

    return edit


def backoffs_of(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many failures in a row each backoff was for."""
    asked: list[int] = []

    def backoff_s(failures: int) -> float:
        asked.append(failures)
        return 0.001

    monkeypatch.setattr(fetcher._session, "backoff_s", backoff_s)
    return asked


@pytest.mark.parametrize(
    "edit",
    [
        edited(),
        edited(preferred_read_replica=1),
        edited(partition_index=7),
        edited(diverging_epoch=EpochEndOffset(epoch=0, end_offset=0)),
        edited(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        lambda answer: replace(answer, responses=()),
        lambda answer: replace(answer, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=()),
    ],
    ids=["empty", "replica", "other partition", "diverging", "out of range", "none", "session"],
)
async def test_answers_at_once_that_move_no_position_are_followed_by_a_backoff_that_grows(
    monkeypatch: pytest.MonkeyPatch, edit: Callable[[FetchResponse], FetchResponse]
) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, fetch_max_wait_ms=60_000) as fetcher:
        fill(brokers.create_topic(TOPIC).partitions[0], 1)
        fetcher.add({FIRST: 0})
        await take(fetcher, 1)
        backoffs = backoffs_of(fetcher, monkeypatch)
        brokers.fault(FetchRequest, edit=edit, times=4)
        fill(brokers.topics[TOPIC].partitions[0], 1)
        assert places(await take(fetcher, 1))[FIRST] in ([0], [1])
        assert backoffs == [0, 1, 2, 3]


async def test_no_backoff_follows_the_answers_of_an_idle_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        brokers.create_topic(TOPIC)
        backoffs = backoffs_of(fetcher, monkeypatch)
        fetcher.add({FIRST: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: len(brokers.seen_of(FetchRequest)) > 3)
        fill(brokers.topics[TOPIC].partitions[0], 1)
        assert (await given(waiting)).offset == 0
        assert backoffs == []


# --- topics


async def test_a_topic_that_does_not_exist_yet() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic("clicks").partitions[0], 3)
        fetcher.add({FIRST: 1, TopicPartition(TOPIC, 1): EARLIEST, OTHER: 0})
        assert places(await take(fetcher, 3)) == {OTHER: [0, 1, 2]}
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: len(brokers.seen_of(MetadataRequest)) > 8)
        for partition in brokers.create_topic(TOPIC, 2).partitions:
            fill(partition, 2)
        assert places([await given(waiting), *await take(fetcher, 2)]) == {FIRST: [1], TopicPartition(TOPIC, 1): [0, 1]}


async def test_a_deleted_topic_does_not_block_others() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        for name in (TOPIC, "clicks"):
            fill(brokers.create_topic(name).partitions[0], 3)
        fetcher.add({FIRST: 0, OTHER: 0})
        await take(fetcher, 6)
        brokers.delete_topic(TOPIC)
        await asyncio.sleep(0.05)
        fill(brokers.topics["clicks"].partitions[0], 2)
        assert places(await take(fetcher, 2)) == {OTHER: [3, 4]}
        assert fetcher.positions == {FIRST: 3, OTHER: 5}


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
@pytest.mark.parametrize("end", [1, 20])
async def test_a_topic_that_is_created_again(reset: str, end: int) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, auto_offset_reset=reset) as fetcher:
        fill(brokers.create_topic(TOPIC).partitions[0], 5)
        fetcher.add({FIRST: 0})
        await take(fetcher, 5)
        fill(brokers.recreate_topic(TOPIC).partitions[0], end)
        waiting = asyncio.ensure_future(fetcher.next())
        if reset == "none":
            with pytest.raises(
                BrokerError, match="from offset 5 on: its topic was deleted and created again, and auto"
            ):
                await waiting
            assert fetcher.positions == {FIRST: 5}
        elif reset == "earliest":
            assert (await given(waiting)).offset == 0
        else:
            await until(lambda: fetcher.positions == {FIRST: end})
            fill(brokers.topics[TOPIC].partitions[0], 1)
            assert (await given(waiting)).offset == end


async def test_a_list_that_was_cancelled_is_not_read_again_after_a_reset() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        partition = brokers.create_topic(TOPIC).partitions[0]
        fill(partition, 5)
        lookup = brokers.fault(ListOffsetsRequest, hold=True)
        fetcher.add({FIRST: 0})
        gathering = asyncio.ensure_future(fetcher.next_list(100, 60.0))
        await until(lambda: fetcher._buffer.ready == 5)
        fill(partition, 5)
        partition.delete_before(8)
        brokers.fault(FetchRequest, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        await lookup.reached.wait()
        gathering.cancel()
        await asyncio.wait([gathering])
        stored = asyncio.ensure_future(fetcher.next_list(2, 60.0, as_stored=True))
        await asyncio.sleep(0)
        lookup.release()
        async with asyncio.timeout(20):
            records = await stored
        assert [one.offset for one in records or ()] == [8, 9]


async def test_a_topic_without_id_that_is_created_again_is_read_on() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        brokers[1].versions[FetchRequest] = (4, 12)
        brokers[1].versions[MetadataRequest] = (0, 9)
        fill(brokers.create_topic(TOPIC).partitions[0], 5)
        fetcher.add({FIRST: 0})
        await take(fetcher, 5)
        fill(brokers.recreate_topic(TOPIC).partitions[0], 3)
        # Its end was not reached there, which is all that can be known.
        assert places(await take(fetcher, 3)) == {FIRST: [0, 1, 2]}


async def test_a_topic_that_may_not_be_read() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        for name in (TOPIC, "clicks"):
            fill(brokers.create_topic(name).partitions[0], 3)
        denied = brokers.fault(FetchRequest, times=None, partition=FIRST, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        fetcher.add({FIRST: 0, OTHER: 0})
        found: list[ConsumedRecord] = []
        for errors in range(10):
            with pytest.raises(AuthorizationError, match="Partition 0 of topic 'orders' could not be read") as failure:
                await take_all(fetcher, found)
            assert failure.value.resource == TOPIC
            if errors and len(found) == 3:
                break
        denied.times = denied.hits
        assert places([*found, *await take(fetcher, 3)]) == {FIRST: [0, 1, 2], OTHER: [0, 1, 2]}


async def test_a_topic_without_the_right_to_look_up_offsets() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic(TOPIC).partitions[0], 3)
        brokers.fault(ListOffsetsRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        fetcher.add({FIRST: EARLIEST})
        with pytest.raises(
            AuthorizationError, match="Partition 0 of topic 'orders' could not be queried for its offsets"
        ):
            await take(fetcher, 1)
        assert places(await take(fetcher, 3)) == {FIRST: [0, 1, 2]}


async def test_a_topic_that_the_cluster_does_not_show() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        brokers.create_topic(TOPIC)
        brokers.fault(
            MetadataRequest, times=None, partition=TopicPartition(TOPIC, -1), error=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        for at in (0, LATEST):
            fetcher.add({FIRST: at})
            with pytest.raises(AuthorizationError, match="'orders' does not exist, or this client may not"):
                await take(fetcher, 1)


# --- offsets that are gone


@pytest.mark.parametrize("at", [2, 99])
@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
async def test_an_offset_that_the_log_does_not_have(at: int, reset: str) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, auto_offset_reset=reset) as fetcher:
        for name in (TOPIC, "clicks"):
            fill(brokers.create_topic(name).partitions[0], 10)
        brokers.topics[TOPIC].partitions[0].delete_before(5)
        fetcher.add({FIRST: at, OTHER: 0})
        if reset == "none":
            found: list[ConsumedRecord] = []
            with pytest.raises(
                BrokerError, match=f"Partition 0 of topic 'orders' can't be read from offset {at}"
            ) as no:
                await take_all(fetcher, found)
            assert no.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert places([*found, *await take(fetcher, 10 - len(found))]) == {OTHER: list(range(10))}
            with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
                await take(fetcher, 1)
        elif reset == "earliest":
            assert places(await take(fetcher, 15)) == {FIRST: list(range(5, 10)), OTHER: list(range(10))}
        else:
            assert places(await take(fetcher, 10)) == {OTHER: list(range(10))}
            await until(lambda: FIRST in fetcher.positions)
            assert fetcher.positions == {FIRST: 10, OTHER: 10}


async def test_offsets_are_looked_up_until_they_are_found() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic(TOPIC).partitions[0], 3)
        brokers.fault(ListOffsetsRequest, times=3, error=ErrorCode.LEADER_NOT_AVAILABLE)
        brokers.fault(ListOffsetsRequest, drop="before")
        brokers.fault(ListOffsetsRequest, error=ErrorCode.UNKNOWN_SERVER_ERROR)
        fetcher.add({FIRST: EARLIEST})
        assert places(await take(fetcher, 3)) == {FIRST: [0, 1, 2]}


# --- what is wrong with the bytes


def with_records(records: bytes) -> Any:
    def edit(answer: FetchResponse) -> FetchResponse:
        (topic,) = answer.responses
        return replace(answer, responses=(replace(topic, partitions=(replace(topic.partitions[0], records=records),)),))

    return edit


@pytest.mark.parametrize("checks", [True, False])
async def test_a_corrupt_batch_raises_and_is_not_skipped(checks: bool) -> None:
    good = stored_batch([b"0", b"1"])
    corrupt = bytearray(good)
    # The size of the second record, and the checksum with it.
    corrupt[-9] ^= 0x40
    async with FakeCluster() as brokers, running_fetcher(brokers, check_crcs=checks) as fetcher:
        fill(brokers.create_topic(TOPIC).partitions[0], 2, batch_records=2)
        brokers.fault(FetchRequest, edit=with_records(bytes(corrupt)), times=2)
        fetcher.add({FIRST: 0})
        found: list[ConsumedRecord] = []
        for _ in range(2):
            with pytest.raises(CorruptRecordError, match=r"^Partition 0 of topic 'orders' can't be read"):
                await take_all(fetcher, found)
        assert places([*found, *await take(fetcher, 2 - len(found))]) == {FIRST: [0, 1]}


async def test_a_large_batch_that_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.reader.fetching._COMPRESSED_INLINE_MAX", 1)
    corrupt = stored_batch([bytes(1000)], attributes=1)
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        store(brokers.create_topic(TOPIC).partitions[0], corrupt)
        fetcher.add({FIRST: 0})
        for _ in range(2):
            with pytest.raises(CorruptRecordError, match="The gzip"):
                await take(fetcher, 1)
        assert fetcher.positions == {FIRST: 0}


async def test_a_corrupt_batch_does_not_block_other_partitions() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        corrupt = bytearray(stored_batch([b"0"]))
        corrupt[-2] ^= 1
        fill(brokers.create_topic("clicks").partitions[0], 3)
        log = brokers.create_topic(TOPIC).partitions[0]
        fill(log, 1)
        log.log[0] = log.log[0]._replace(data=bytes(corrupt))
        fetcher.add({FIRST: 0, OTHER: 0})
        found: list[ConsumedRecord] = []
        while len(found) < 3:
            try:
                found += await take(fetcher, 1)
            except CorruptRecordError:
                continue
        assert places(found) == {OTHER: [0, 1, 2]}


async def test_a_malformed_response_raises() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic(TOPIC).partitions[0], 1)
        brokers.fault(FetchRequest, reply=b"\x7f\xff\xff\xff")
        fetcher.add({FIRST: 0})
        with pytest.raises(ProtocolError, match="announces a frame"):
            await take(fetcher, 1)
        assert places(await take(fetcher, 1)) == {FIRST: [0]}
