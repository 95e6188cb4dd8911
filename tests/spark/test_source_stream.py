"""The stream reader, called as Spark calls it: what a checkpoint holds goes through JSON."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming import datasource as limits

from aioprod.errors import BrokerError, ConfigError, UnknownTopicError
from aioprod.spark.datasource import AioprodSource
from aioprod.spark.offsets import Offsets
from aioprod.spark.source import stream as stream_source
from aioprod.spark.source.stream import StreamReader
from aioprod.testing.fixtures import FakeClusterThread
from aioprod.types import TopicPartition
from tests.support.stored_batches import fill, store, stored_batch

T = "orders"
ALL = limits.ReadAllAvailable()


@pytest.fixture
def options(fake_cluster: FakeClusterThread) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": fake_cluster.bootstrap,
        "subscribe": T,
        "startingOffsets": "earliest",
        "kafka.retry.backoff.ms": "1",
    }


def stream(options: Mapping[str, str], **more: str) -> StreamReader:
    source = AioprodSource({name.lower(): value for name, value in {**options, **more}.items() if value != "-"})
    made = source.streamReader(source.schema())
    assert isinstance(made, StreamReader)
    return made


def kept(offset: Mapping[str, Any]) -> dict[str, Any]:
    """As it comes back from a checkpoint."""
    found = json.loads(json.dumps(offset))
    assert isinstance(found, dict)
    return found


def offsets(offset: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return dict(offset["offsets"])


def read(reader: StreamReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of all records of a micro-batch."""
    in_task = pickle.loads(pickle.dumps(reader))
    return [
        (row["topic"], row["partition"], row["offset"])
        for stretch in reader.partitions(kept(start), kept(end))
        for batch in in_task.read(stretch)
        for row in batch.to_pylist()
    ]


def test_from_trigger_to_trigger(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 2)
    fill(topic.partitions[0], 3)
    reader = stream(options)
    assert reader.reportLatestOffset() is None
    start = reader.initialOffset()
    assert start == {"version": 1, "offsets": {T: {"0": 0, "1": 0}}, "ids": {T: str(topic.id)}}
    end = reader.latestOffset(kept(start), ALL)
    assert offsets(end) == {T: {"0": 3, "1": 0}}
    assert read(reader, start, end) == [(T, 0, 0), (T, 0, 1), (T, 0, 2)]
    reader.commit(kept(end))
    assert json.dumps(reader.latestOffset(kept(end), ALL)) == json.dumps(end)
    assert reader.partitions(kept(end), kept(end)) == []
    fill(topic.partitions[1], 2)
    again = stream(options)  # After a restart nobody asks for the initial offset.
    later = again.latestOffset(kept(end), ALL)
    assert read(again, end, later) == [(T, 1, 0), (T, 1, 1)]
    assert again.reportLatestOffset() == later
    again.stop()


def test_where_a_new_query_begins(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    fill(fake_cluster.create_topic(T, 1).partitions[0], 5)
    assert offsets(stream(options, startingOffsets="-").initialOffset()) == {T: {"0": 5}}
    assert offsets(stream(options, startingOffsets='{"orders": {"0": 2}}').initialOffset()) == {T: {"0": 2}}
    by_time = stream(options, startingOffsets="-", startingTimestamp="1003").initialOffset()
    assert offsets(by_time) == {T: {"0": 3}}
    with pytest.raises(ConfigError, match="no record as late as startingTimestamp"):
        stream(options, startingOffsets="-", startingTimestamp="2000").initialOffset()
    with pytest.raises(UnknownTopicError, match="Topic 'nowhere' does not exist"):
        stream(options, subscribe="nowhere").initialOffset()
    empty = stream(options, subscribe="-", subscribePattern="nowhere.*").initialOffset()
    assert empty == {"version": 1, "offsets": {}, "ids": {}}


def test_so_many_a_trigger(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 3)
    fill(topic.partitions[0], 60)
    fill(topic.partitions[1], 20)
    reader = stream(options, maxOffsetsPerTrigger="10", startingOffsets="earliest")
    limit = reader.getDefaultReadLimit()
    assert limit == limits.ReadMaxRows(10)
    assert stream(options).getDefaultReadLimit() == ALL
    end = reader.initialOffset()
    found: list[tuple[str, int, int]] = []
    rounds = 0
    while True:
        start, end = end, reader.latestOffset(kept(end), limit)
        if start == end:
            break
        rows = read(reader, start, end)
        assert 1 <= len(rows) <= 10
        found += rows
        rounds += 1
    assert sorted(found) == [(T, 0, offset) for offset in range(60)] + [(T, 1, offset) for offset in range(20)]
    assert rounds <= 10
    assert offsets(reader.latestOffset(kept(reader.initialOffset()), ALL)) == {T: {"0": 60, "1": 20, "2": 0}}


@pytest.mark.parametrize("restarted", [False, True])
def test_so_many_a_trigger_before_admission_control(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_source, "_limits", None)
    fill(fake_cluster.create_topic(T, 1).partitions[0], 20)
    reader = stream(options, maxOffsetsPerTrigger="6")
    first = reader.initialOffset()
    end = reader.latestOffset()
    assert offsets(end) == {T: {"0": 6}}
    assert len(read(reader, first, end)) == 6
    if restarted:
        reader = stream(options, maxOffsetsPerTrigger="6")
        assert reader.partitions(kept(end), kept(end)) == []  # So Spark tells where it has got to.
    assert offsets(reader.latestOffset()) == {T: {"0": 12}}
    assert offsets(stream(options).latestOffset()) == {T: {"0": 20}}


def test_all_that_there_is_now(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 1)
    fill(topic.partitions[0], 8)
    reader = stream(options, maxOffsetsPerTrigger="5")
    assert isinstance(reader, limits.SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    fill(topic.partitions[0], 8)
    fake_cluster.create_topic("orders-2", 1)
    start = reader.initialOffset()
    first = reader.latestOffset(kept(start), limits.ReadMaxRows(5))
    second = reader.latestOffset(kept(first), limits.ReadMaxRows(5))
    third = reader.latestOffset(kept(second), limits.ReadMaxRows(5))
    assert [offsets(one)[T]["0"] for one in (start, first, second, third)] == [0, 5, 8, 8]


def test_a_topic_that_grows_and_one_that_is_new(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 1)
    reader = stream(options, subscribe="-", subscribePattern="orders.*", maxOffsetsPerTrigger="100")
    start = reader.latestOffset(kept(reader.initialOffset()), ALL)
    assert offsets(start) == {T: {"0": 0}}
    topic.partitions.append(type(topic.partitions[0])(1))
    fill(topic.partitions[1], 2)
    fill(fake_cluster.create_topic("orders-2", 1).partitions[0], 1)
    end = reader.latestOffset(kept(start), limits.ReadMaxRows(2))
    assert offsets(end) == {T: {"0": 0, "1": 1}, "orders-2": {"0": 1}}
    assert read(reader, start, end) == [(T, 1, 0), ("orders-2", 0, 0)]


def test_a_new_partition_that_has_lost_records(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = fake_cluster.create_topic(T, 1)
    start = stream(options).initialOffset()
    topic.partitions.append(type(topic.partitions[0])(1))
    fill(topic.partitions[1], 5)
    topic.partitions[1].delete_before(3)
    end = stream(options).latestOffset(kept(start), ALL)
    with pytest.raises(BrokerError, match="orders-1 is new, and begins at offset 3"):
        stream(options).partitions(kept(start), kept(end))
    assert read(stream(options, failOnDataLoss="false"), start, end) == [(T, 1, 3), (T, 1, 4)]
    assert "orders-1 is new, and begins at offset 3" in caplog.text


def test_retention(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = fake_cluster.create_topic(T, 1)
    fill(topic.partitions[0], 10)
    start = stream(options, startingOffsets='{"orders": {"0": 2}}').initialOffset()
    end = stream(options).latestOffset(kept(start), ALL)
    topic.partitions[0].delete_before(6)
    with pytest.raises(BrokerError, match="Offsets 2 to 5 of orders-0 are gone: its log begins at 6"):
        stream(options).partitions(kept(start), kept(end))
    assert read(stream(options, failOnDataLoss="false"), start, end) == [(T, 0, offset) for offset in range(6, 10)]
    assert "Offsets 2 to 5 of orders-0 are gone" in caplog.text
    topic.partitions[0].delete_before(10)
    assert read(stream(options, failOnDataLoss="false"), start, end) == []


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("count", [3, 30])
def test_a_topic_that_was_created_again(
    fake_cluster: FakeClusterThread,
    options: Mapping[str, str],
    by_id: bool,
    count: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = fake_cluster.create_topic(T, 1)
    fill(topic.partitions[0], 10)
    start = stream(options).latestOffset(kept(stream(options).initialOffset()), ALL)
    if not by_id:
        start["ids"] = {}
    fill(fake_cluster.recreate_topic(T).partitions[0], count)
    if by_id or count == 3:
        message = "'orders' was deleted and created again" if by_id else "read up to offset 10, and ends at 3 now"
        with pytest.raises(BrokerError, match=message):
            stream(options).latestOffset(kept(start), ALL)
        lenient = stream(options, failOnDataLoss="false", maxOffsetsPerTrigger="1000")
        end = lenient.latestOffset(kept(start), limits.ReadMaxRows(1000))
        with pytest.raises(BrokerError, match=message):
            stream(options).partitions(kept(start), kept(end))
        assert read(lenient, start, end) == [(T, 0, offset) for offset in range(count)]
        assert message in caplog.text


def test_a_topic_that_is_gone(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    fill(fake_cluster.create_topic(T, 1).partitions[0], 10)
    fill(fake_cluster.create_topic("orders-2", 1).partitions[0], 5)
    pattern = {**options, "subscribe": "-", "subscribePattern": "orders.*"}
    start = stream(pattern).initialOffset()
    end = stream(pattern).latestOffset(kept(start), ALL)
    fake_cluster.delete_topic("orders-2")
    with pytest.raises(BrokerError, match="orders-2-0 is gone, and what was after offset 5 with it"):
        stream(pattern).latestOffset(kept(end), ALL)
    with pytest.raises(BrokerError, match="orders-2-0 is gone"):
        stream(pattern).partitions(kept(start), kept(end))
    lenient = stream(pattern, failOnDataLoss="false")
    assert read(lenient, start, end) == [(T, 0, offset) for offset in range(10)]
    assert "orders-2-0 is gone" in caplog.text
    later = lenient.latestOffset(kept(end), ALL)
    assert offsets(later) == {T: {"0": 10}}
    assert read(lenient, end, later) == []


def test_pieces_of_a_micro_batch(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    fill(fake_cluster.create_topic(T, 1).partitions[0], 10)
    reader = stream(options, minPartitions="3")
    start = reader.initialOffset()
    stretches = reader.partitions(kept(start), kept(reader.latestOffset(kept(start), ALL)))
    assert [(one.start, one.end) for one in stretches] == [(0, 3), (3, 6), (6, 10)]
    assert list(reader.read(InputPartition(None))) == []


def test_only_what_is_committed(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    partition = fake_cluster.create_topic(T, 1).partitions[0]
    fill(partition, 2)
    open_ = stored_batch([b"open"], base_offset=2, producer_id=9, transactional=True)
    store(partition, open_)
    partition.producers.of(9).append(partition.log[-1].batch, 2)
    for isolation, end in (("read_committed", 2), ("read_uncommitted", 3)):
        reader = stream(options, **{"isolation.level": isolation})
        assert offsets(reader.latestOffset(kept(reader.initialOffset()), ALL)) == {T: {"0": end}}


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"version": 1},
        {"version": 1, "offsets": 1},
        {"version": 1, "offsets": {"a": 5}, "ids": {}},
        {"a": {"x": 1}},
        {"a": 1},
    ],
)
def test_strange_checkpoints(options: Mapping[str, str], checkpoint: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="does not hold the offsets of a Kafka source"):
        stream(options).latestOffset(checkpoint, ALL)
    with pytest.raises(ConfigError, match="of version 2, of a later aioprod"):
        Offsets.from_json({"version": 2})


def test_a_checkpoint_of_sparks_own_source() -> None:
    assert Offsets.from_json({"a": {"10": 5, "2": 7}}) == Offsets(
        {TopicPartition("a", 10): 5, TopicPartition("a", 2): 7}, {}
    )
    assert list(Offsets.from_json({"b": {"10": 5, "2": 7}, "a": {"0": 1}}).to_json()["offsets"]["b"]) == ["2", "10"]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("starting", ["latest", '{"orders": {"0": 12}}'])
def test_all_that_there_is_now_of_a_topic_that_is_being_written(
    fake_cluster: FakeClusterThread,
    options: Mapping[str, str],
    starting: str,
    lenient: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    partition = fake_cluster.create_topic(T, 1).partitions[0]
    fill(partition, 10)
    reader = stream(options, startingOffsets=starting, failOnDataLoss="false" if lenient else "true")
    reader.prepareForTriggerAvailableNow()
    fill(partition, 5)
    start = reader.initialOffset()
    end = reader.latestOffset(kept(start), ALL)
    assert read(reader, start, end) == []
    later = stream(options).latestOffset(kept(end), ALL)
    begin = 15 if starting == "latest" else 12
    assert read(stream(options), end, later) == [(T, 0, offset) for offset in range(begin, 15)]
    assert "is false" not in caplog.text


def test_all_that_there_is_now_with_a_partition_that_came_meanwhile(
    fake_cluster: FakeClusterThread, options: Mapping[str, str]
) -> None:
    topic = fake_cluster.create_topic(T, 1)
    fill(topic.partitions[0], 10)
    reader = stream(options)
    reader.prepareForTriggerAvailableNow()
    topic.partitions.append(type(topic.partitions[0])(1))
    fill(topic.partitions[1], 2)
    start = reader.initialOffset()
    end = reader.latestOffset(kept(start), ALL)
    assert read(reader, start, end) == [(T, 0, offset) for offset in range(10)]
    later = stream(options).latestOffset(kept(end), ALL)
    assert read(stream(options), end, later) == [(T, 1, 0), (T, 1, 1)]


def test_the_beginning_of_a_query_stays_where_it_is(
    fake_cluster: FakeClusterThread, options: Mapping[str, str]
) -> None:
    """Spark asks for it once for the end of the first micro-batch, and again to plan that."""
    partition = fake_cluster.create_topic(T, 1).partitions[0]
    fill(partition, 10)
    reader = stream(options, startingOffsets="latest")
    start = reader.initialOffset()
    fill(partition, 2)
    end = reader.latestOffset(kept(start), ALL)
    fill(partition, 3)
    assert read(reader, reader.initialOffset(), end) == [(T, 0, 10), (T, 0, 11)]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("lenient", [False, True])
def test_an_end_that_was_noted_before_the_beginning(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], restarted: bool, lenient: bool
) -> None:
    """PySpark before 4.2 asks for the end first. After a restart a first micro-batch that was not committed is planned
    again, from a beginning that is looked up anew."""
    topic = fake_cluster.create_topic(T, 1)
    fill(topic.partitions[0], 10)
    more = {"startingOffsets": "latest", "failOnDataLoss": str(not lenient).lower()}
    reader = stream(options, **more)
    end = reader.latestOffset(None)
    if restarted:
        reader = stream(options, **more)
    fill(topic.partitions[0], 3)
    topic.partitions.append(type(topic.partitions[0])(1))
    fill(topic.partitions[1], 2)
    start = reader.initialOffset()
    assert read(reader, start, end) == []
    later = reader.latestOffset(kept(end), ALL)
    assert read(reader, end, later) == [(T, 0, 10), (T, 0, 11), (T, 0, 12), (T, 1, 0), (T, 1, 1)]


def test_a_beginning_that_was_given_after_the_end(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    fill(fake_cluster.create_topic(T, 1).partitions[0], 10)
    reader = stream(options, startingOffsets='{"orders": {"0": 12}}')
    end = reader.latestOffset(None)
    with pytest.raises(BrokerError, match="orders-0 was read up to offset 12, and ends at 10 now"):
        reader.partitions(reader.initialOffset(), kept(end))


def test_a_log_that_is_shorter(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """After an unclean election the topic is the same, and what was read of it is not read again."""
    partition = fake_cluster.create_topic(T, 1).partitions[0]
    fill(partition, 10)
    start = stream(options).latestOffset(kept(stream(options).initialOffset()), ALL)
    del partition.log[8:]
    partition.next_offset = 8
    message = "orders-0 was read up to offset 10, and ends at 8 now"
    with pytest.raises(BrokerError, match=message):
        stream(options).latestOffset(kept(start), ALL)
    lenient = stream(options, failOnDataLoss="false")
    end = lenient.latestOffset(kept(start), ALL)
    assert offsets(end) == {T: {"0": 8}}
    with pytest.raises(BrokerError, match=message):
        stream(options).partitions(kept(start), kept(end))
    assert read(lenient, start, end) == []
    assert message in caplog.text
    fill(partition, 2)
    assert read(lenient, end, lenient.latestOffset(kept(end), ALL)) == [(T, 0, 8), (T, 0, 9)]
