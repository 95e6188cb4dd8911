from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from aioprod.errors import ConfigError, ErrorCode, UnknownTopicError
from aioprod.messages import ListOffsetsRequest, ListOffsetsResponse
from aioprod.reader.offsets import EARLIEST, LATEST, look_up, timestamp_of, topic_offsets
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.sessions import running_session
from tests.support.stored_batches import fill

UTC = datetime.UTC


def test_what_a_time_can_be() -> None:
    assert timestamp_of("at", "earliest") == EARLIEST
    assert timestamp_of("at", "latest") == LATEST
    assert timestamp_of("at", 0) == 0
    assert timestamp_of("at", datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)) == 1500


@pytest.mark.parametrize(
    ("at", "complaint"),
    [
        (datetime.datetime(2024, 1, 1), "no time zone"),
        (datetime.datetime(1960, 1, 1, tzinfo=UTC), "from 0 on"),
        (-1, "from 0 on"),
        (2**63, "from 0 on"),
        (True, "True"),
        (1.5, "ms since the epoch"),
        ("now", "'now'"),
        (None, "None"),
    ],
)
def test_what_it_can_not_be(at: object, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^start is .*{complaint}"):
        timestamp_of("start", at)


async def test_start_end_and_times_of_a_topic() -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        topic = brokers.create_topic("orders", 3)
        for index, partition in enumerate(topic.partitions):
            fill(partition, 10 * index)
        brokers.create_topic("clicks")
        tps = [*(TopicPartition("orders", index) for index in range(3)), TopicPartition("clicks", 0)]

        async def offsets(at: object) -> list[int]:
            found = await topic_offsets(session, "orders", at, "read_uncommitted")
            assert list(found) == [TopicPartition("orders", index) for index in range(3)]
            return list(found.values())

        assert await offsets("earliest") == [0, 0, 0]
        assert await offsets("latest") == [0, 10, 20]
        assert await offsets(1005) == [0, 5, 5]
        assert await offsets(1015) == [0, 10, 15]
        assert await look_up(session, {tps[1]: 1015, tps[2]: 1010, tps[3]: EARLIEST}, "read_uncommitted") == {
            tps[1]: -1,
            tps[2]: 10,
            tps[3]: 0,
        }
        assert await look_up(session, {}, "read_uncommitted") == {}


@pytest.mark.parametrize(("isolation", "level"), [("read_uncommitted", 0), ("read_committed", 1)])
async def test_the_request(isolation: str, level: int) -> None:
    async with FakeCluster() as brokers, running_session(brokers, request_timeout_ms=1234) as session:
        brokers.create_topic("orders")
        brokers.state.move_leader(TopicPartition("orders", 0), 1)
        await topic_offsets(session, "orders", "latest", isolation)
        (request,) = brokers.seen_of(ListOffsetsRequest)
        assert (request.isolation_level, request.timeout_ms, request.replica_id) == (level, 1234, -1)
        (row,) = request.topics[0].partitions
        assert (row.current_leader_epoch, row.timestamp) == (1, LATEST)


async def test_errors_and_missing_rows_are_retried() -> None:
    def nothing(answer: Any) -> ListOffsetsResponse:
        return ListOffsetsResponse()

    async with FakeCluster() as brokers, running_session(brokers) as session:
        fill(brokers.create_topic("orders").partitions[0], 3)
        brokers.fault(ListOffsetsRequest, edit=nothing)
        brokers.fault(ListOffsetsRequest, error=ErrorCode.OFFSET_NOT_AVAILABLE)
        found = await topic_offsets(session, "orders", "latest", "read_committed")
        assert found == {TopicPartition("orders", 0): 3}
        assert len(brokers.seen_of(ListOffsetsRequest)) == 3
        with pytest.raises(UnknownTopicError):
            await topic_offsets(session, "nothing", "latest", "read_committed")


@pytest.mark.parametrize(("at", "given"), [("latest", -1), ("earliest", -5), (1000, -5)])
async def test_an_offset_that_no_log_has_is_asked_for_again_after_a_backoff(at: Any, given: int) -> None:
    def edit(answer: ListOffsetsResponse) -> ListOffsetsResponse:
        (topic,) = answer.topics
        rows = tuple(replace(row, offset=given) for row in topic.partitions)
        return replace(answer, topics=(replace(topic, partitions=rows),))

    async with FakeCluster() as brokers, running_session(brokers) as session:
        fill(brokers.create_topic("orders").partitions[0], 3)
        brokers.fault(ListOffsetsRequest, edit=edit, times=2)
        found = await topic_offsets(session, "orders", at, "read_uncommitted")
        assert found == {TopicPartition("orders", 0): 3 if at == "latest" else 0}
        assert len(brokers.seen_of(ListOffsetsRequest)) == 3
