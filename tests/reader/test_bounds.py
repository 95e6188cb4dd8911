from __future__ import annotations

import datetime
from typing import Any

import pytest

from aioprod.errors import BrokerError, ConfigError, ErrorCode, InvalidTopicError
from aioprod.messages import ListOffsetsRequest, ListOffsetsResponse
from aioprod.reader.bounds import Selection
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.sessions import running_session
from tests.support.stored_batches import fill


def test_arguments_are_normalized() -> None:
    noon = datetime.datetime(1970, 1, 1, 12, tzinfo=datetime.UTC)
    assert Selection.of("t", None, None, None) == Selection("t", {}, {}, None)
    assert Selection.of("t", {0: 5}, {TopicPartition("t", 1): 7}, [2, 0, 2]) == Selection("t", {0: 5}, {1: 7}, (0, 2))
    assert Selection.of("t", 5, noon, []) == Selection("t", 5, 12 * 3600 * 1000, ())


@pytest.mark.parametrize(
    ("start", "end", "partitions", "complaint"),
    [
        ({-1: 0}, None, None, "start names partition -1"),
        ({"0": 0}, None, None, "start names partition '0'"),
        ({True: 0}, None, None, "start names partition True"),
        ({TopicPartition("u", 0): 0}, None, None, "start names a partition of topic 'u'"),
        (None, {0: -2}, None, "end has -2 for partition 0"),
        (None, {0: 1.5}, None, "end has 1.5 for partition 0"),
        (None, {0: True}, None, "end has True for partition 0"),
        (None, {0: 2**63}, None, "end has 9223372036854775808"),
        (None, "latest", None, "end is 'latest'"),
        ([5], None, None, r"start is \[5\]"),
        (-5, None, None, "start is -5"),
        (None, None, [-1], "partitions names partition -1"),
    ],
)
def test_invalid_bounds_raise(start: Any, end: Any, partitions: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Selection.of("t", start, end, partitions)


def test_the_name_of_the_topic_is_checked() -> None:
    with pytest.raises(InvalidTopicError):
        Selection.of("no topic", None, None, None)


async def test_offsets_by_partition() -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        for index, partition in enumerate(brokers.create_topic("t", 3).partitions):
            fill(partition, 10 * index)

        async def resolved(
            start: Any = None, end: Any = None, partitions: Any = None, isolation: str = "read_uncommitted"
        ) -> dict[int, tuple[int, int]]:
            await session.partitions("t")
            return await Selection.of("t", start, end, partitions).resolve(session, 3, isolation)

        assert await resolved() == {0: (0, 0), 1: (0, 10), 2: (0, 20)}
        assert await resolved({1: 4}, {2: 6, 1: 99}) == {0: (0, 0), 1: (4, 10), 2: (0, 6)}
        assert await resolved({1: 4, 2: 3}, None, [1]) == {1: (4, 10)}
        assert await resolved(1005, 1015) == {0: (0, 0), 1: (5, 10), 2: (5, 15)}
        assert await resolved(5000, 5000) == {0: (0, 0), 1: (10, 10), 2: (20, 20)}
        assert await resolved({1: 10}, {1: 3}, [1]) == {1: (10, 3)}
        assert await resolved(None, None, []) == {}
        for start, end, partitions in (({3: 0}, None, None), (None, {3: 0}, None), (None, None, [0, 3])):
            with pytest.raises(ConfigError, match="names partition 3: topic 't' has 0 to 2"):
                await resolved(start, end, partitions)
        with pytest.raises(BrokerError, match="can't be read from offset 11 on: it ends at 10") as failure:
            await resolved({1: 11})
        assert failure.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_start_after_the_last_stable_offset_may_be_in_the_log() -> None:
    def stable_at_3(answer: ListOffsetsResponse) -> ListOffsetsResponse:
        (topic,) = answer.topics
        (row,) = topic.partitions
        return type(answer)(topics=(type(topic)(name="t", partitions=(type(row)(partition_index=0, offset=3),)),))

    async with FakeCluster() as brokers, running_session(brokers) as session:
        fill(brokers.create_topic("t").partitions[0], 10)
        await session.partitions("t")
        for start in (8, 11):
            # The first request is for the last stable offset; without explicit starts there is no other one.
            brokers.fault(ListOffsetsRequest, edit=stable_at_3)
            selection = Selection.of("t", {0: start}, None, None)
            if start == 8:
                assert await selection.resolve(session, 1, "read_committed") == {0: (8, 3)}
            else:
                with pytest.raises(BrokerError, match="ends at 10"):
                    await selection.resolve(session, 1, "read_committed")
        levels = [request.isolation_level for request in brokers.seen_of(ListOffsetsRequest)]
        assert levels == [1, 0, 1, 0]
