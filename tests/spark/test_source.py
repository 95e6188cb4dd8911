"""The batch reader, called as Spark calls it."""

from __future__ import annotations

import datetime
import json
import pickle
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from aioprod.errors import BrokerError, ConfigError, CorruptRecordError, ErrorCode, UnknownTopicError
from aioprod.messages import FetchRequest, MetadataRequest
from aioprod.reader import Reader
from aioprod.records import Compression, ControlType
from aioprod.spark import worker
from aioprod.spark.datasource import AioprodSource
from aioprod.spark.source import rows as source_rows
from aioprod.testing.fixtures import FakeClusterThread
from tests.records.test_table import Rows, built
from tests.support.stored_batches import fill, marker, store, stored_batch

T = "orders"
NOW = 1_700_000_000_000


@pytest.fixture
def options(fake_cluster: FakeClusterThread) -> dict[str, str]:
    return {"kafka.bootstrap.servers": fake_cluster.bootstrap, "subscribe": T, "kafka.retry.backoff.ms": "1"}


def reader_of(options: Mapping[str, str], schema: StructType | None = None) -> Any:
    source = AioprodSource({name.lower(): value for name, value in options.items()})
    return pickle.loads(pickle.dumps(source.reader(schema or source.schema())))


def batch_reader(options: Mapping[str, str], **more: str) -> Any:
    return reader_of({**options, **more})


def read(options: Mapping[str, str], **more: str) -> list[dict[str, Any]]:
    """All rows, task by task."""
    reader = batch_reader(options, **more)
    stretches = reader.partitions() or [InputPartition(None)]
    return [row for one in stretches for batch in reader.read(one) for row in batch.to_pylist()]


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def filled(cluster: FakeClusterThread, partitions: int = 2, count: int = 10, name: str = T) -> Any:
    topic = cluster.create_topic(name, partitions)
    for partition in topic.partitions:
        fill(partition, count, batch_records=min(5, count))
    return topic


def test_the_columns(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 1)
    store(topic.partitions[0], stored_batch([b"a", None, b""], key=b"k", timestamp=NOW))
    rows = read(options)
    assert rows[0] == {
        "key": b"k",
        "value": b"a",
        "topic": T,
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.datetime.fromtimestamp(NOW / 1000, datetime.UTC),
        "timestampType": 0,
    }
    assert [row["value"] for row in rows] == [b"a", None, b""]


@pytest.mark.parametrize("names", [None, "offset", "headers,value,timestamp", "timestampType,partition,topic,key"])
def test_the_schema_is_what_spark_wants(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], names: str | None
) -> None:
    filled(fake_cluster, 1)
    wanted = AioprodSource({**options, "includeheaders": "true"}).schema()
    if names is not None:
        wanted = StructType([wanted[name] for name in names.split(",")])
        wanted[0].nullable = False
    reader = reader_of({**options, "includeHeaders": "true"}, wanted)
    (stretch,) = reader.partitions()
    (batch,) = reader.read(stretch)
    assert batch.schema.equals(to_arrow_schema(wanted, timezone="UTC"))
    batch.validate(full=True)
    assert batch.num_rows == 10


def test_headers(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 1)
    rows: Rows = [(NOW, None, b"1", [("a", b"x"), ("b", None)]), (NOW, None, b"2", []), (NOW, b"k", b"3", [("ä", b"")])]
    store(topic.partitions[0], built(rows))
    assert [row["headers"] for row in read(options, includeHeaders="true")] == [
        [{"key": "a", "value": b"x"}, {"key": "b", "value": None}],
        None,
        [{"key": "ä", "value": b""}],
    ]
    assert "headers" not in read(options)[0]


@pytest.mark.parametrize("codec", list(Compression))
def test_small_batches(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_rows, "ROWS_MAX", 7)
    topic = fake_cluster.create_topic(T, 1)
    for base in range(0, 100, 20):
        values = [b"%d" % offset for offset in range(base, base + 20)]
        store(topic.partitions[0], stored_batch(values, base_offset=base, codec=codec, timestamp=NOW + base))
    rows = read(options, **{"kafka.max.partition.fetch.bytes": "10"})
    assert [row["value"] for row in rows] == [b"%d" % offset for offset in range(100)]
    assert len(fake_cluster.seen_of(FetchRequest)) >= 5


def test_the_brokers_clock_among_others(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 1)
    first = stored_batch([b"a", b"b"], timestamp=NOW)
    second = stored_batch([b"c"], base_offset=2, timestamp=NOW, attributes=0x08)
    store(topic.partitions[0], first, second, stored_batch([b"d"], base_offset=3, timestamp=NOW))
    assert [row["timestampType"] for row in read(options)] == [0, 0, 1, 0]


def test_a_timestamp_beyond_spark(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 1)
    store(topic.partitions[0], stored_batch([b"a"], base_offset=0, timestamp=(1 << 63) - 10))
    with pytest.raises(
        CorruptRecordError, match="orders-0 from offset 0 on has a timestamp that Spark has no room for"
    ):
        read(options)


def test_limits(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    filled(fake_cluster)
    both = [(partition, offset) for partition in range(2) for offset in range(10)]
    assert places(read(options)) == both
    start = json.dumps({T: {"0": 8, "1": -2}})
    end = json.dumps({T: {"0": -1, "1": 3}})
    assert places(read(options, startingOffsets=start, endingOffsets=end)) == [(0, 8), (0, 9), (1, 0), (1, 1), (1, 2)]
    rows = read(options, startingTimestamp="1004", endingTimestamp="1006")
    assert places(rows) == [(0, 4), (0, 5), (1, 4), (1, 5)]
    times = json.dumps({T: {"0": 1009, "1": 1010}})
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert places(read(options, startingOffsetsByTimestamp=times, **latest)) == [(0, 9)]
    with pytest.raises(ConfigError, match="no record as late as startingOffsetsByTimestamp says in orders-1"):
        read(options, startingOffsetsByTimestamp=times)
    assert places(read(options, endingOffsetsByTimestamp=json.dumps({T: {"0": 0, "1": 5000}}))) == both[10:]


def test_assigned_partitions_and_patterns(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    filled(fake_cluster, 3, 2)
    filled(fake_cluster, 1, 2, "orders-2")
    filled(fake_cluster, 1, 2, "other")
    servers = {name: value for name, value in options.items() if name.startswith("kafka")}
    assert places(read(servers, assign='{"orders": [2, 0]}')) == [(0, 0), (0, 1), (2, 0), (2, 1)]
    assert {row["topic"] for row in read(servers, subscribePattern="order.*")} == {"orders", "orders-2"}
    with pytest.raises(ConfigError, match="No topic matches the subscribePattern 'order'"):
        read(servers, subscribePattern="order")
    with pytest.raises(ConfigError, match="assign names orders-3: topic 'orders' has 3 partitions"):
        read(servers, assign='{"orders": [3]}')


def test_pieces(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    filled(fake_cluster)
    reader = batch_reader(options, minPartitions="5")
    stretches = reader.partitions()
    assert len(stretches) == 5
    assert len(batch_reader(options, maxRecordsPerPartition="3").partitions()) == 8
    read_all = [row for one in stretches for batch in reader.read(one) for row in batch.to_pylist()]
    assert places(read_all) == [(partition, offset) for partition in range(2) for offset in range(10)]


def test_nothing_to_read(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    fake_cluster.create_topic(T, 2)
    assert batch_reader(options).partitions() == []
    assert read(options) == []


def test_gaps_are_no_loss(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    partition = fake_cluster.create_topic(T, 1).partitions[0]
    store(partition, stored_batch([b"a"], base_offset=5, last_offset_delta=10), stored_batch([b"b"], base_offset=20))
    store(partition, marker(ControlType.COMMIT, 7, base_offset=21))
    assert places(read(options)) == [(0, 5), (0, 20)]


def test_one_reader_for_all_tasks(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    filled(fake_cluster, 4)
    reader = batch_reader(options)
    stretches = reader.partitions()
    list(reader.read(stretches[0]))
    asked = len(fake_cluster.seen_of(MetadataRequest))
    for stretch in stretches:
        assert sum(batch.num_rows for batch in reader.read(stretch)) == 10
    assert len(fake_cluster.seen_of(MetadataRequest)) == asked


def test_a_task_that_is_given_up(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    filled(fake_cluster, 1, 100)
    reader = batch_reader(options, **{"kafka.max.partition.fetch.bytes": "10"})
    (stretch,) = reader.partitions()
    batches = reader.read(stretch)
    assert next(batches).num_rows
    batches.close()
    assert sum(batch.num_rows for batch in reader.read(stretch)) == 100


# --- what is refused


def test_a_topic_that_does_not_exist(options: Mapping[str, str]) -> None:
    with pytest.raises(UnknownTopicError, match="Topic 'orders' does not exist"):
        batch_reader(options).partitions()


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"0": 1}, "startingOffsets leaves out orders-1: it must name all"),
        ({"0": 1, "1": 1, "2": 0, "7": 5}, "startingOffsets names orders-2, orders-7, which are not read"),
    ],
)
def test_other_partitions(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], start: dict[str, int], message: str
) -> None:
    filled(fake_cluster)
    with pytest.raises(ConfigError, match=message):
        batch_reader(options, startingOffsets=json.dumps({T: start})).partitions()


def test_an_end_before_the_start(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    filled(fake_cluster, 1)
    start = json.dumps({T: {"0": 8}})
    with pytest.raises(ConfigError, match=r"orders-0 would be read from offset 8 \(startingOffsets\) to 3 \(ending"):
        batch_reader(options, startingOffsets=start, endingTimestamp="1003").partitions()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (StructType().add("val", StringType()), "The schema has 'val': the source has key, value, topic"),
        (StructType().add("value", StringType()), "The schema has value as string: in the source it is binary"),
        (StructType().add("partition", LongType()), "partition as bigint: in the source it is int"),
        (StructType().add("headers", StringType()), "The schema has headers: set includeHeaders to true"),
    ],
)
def test_other_schemas(options: Mapping[str, str], schema: StructType, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AioprodSource(dict(options)).reader(schema)
    with pytest.raises(ConfigError, match=message):
        AioprodSource(dict(options)).streamReader(schema)


# --- what is gone


def test_offsets_that_retention_removed(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(fake_cluster, 1)
    topic.partitions[0].delete_before(5)
    assert places(read(options)) == [(0, offset) for offset in range(5, 10)]
    start = json.dumps({T: {"0": 2}})
    with pytest.raises(BrokerError, match="Offsets 2 to 4 of orders-0 are gone: its log begins at 5") as caught:
        batch_reader(options, startingOffsets=start).partitions()
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    rows = read(options, startingOffsets=start, failOnDataLoss="false")
    assert places(rows) == [(0, offset) for offset in range(5, 10)]
    assert "Offsets 2 to 4 of orders-0 are gone" in caplog.text
    end = json.dumps({T: {"0": 4}})
    assert read(options, startingOffsets=start, endingOffsets=end, failOnDataLoss="false") == []


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_beyond_the_end(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], option: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(fake_cluster, 1)
    beyond = {option: json.dumps({T: {"0": 12}})}
    message = r"its log ends at 10"
    if option == "startingOffsets":
        beyond["endingOffsets"] = json.dumps({T: {"0": 13}})
    with pytest.raises(BrokerError, match=message):
        batch_reader(options, **beyond).partitions()
    rows = read(options, **beyond, failOnDataLoss="false")
    assert len(rows) == (0 if option == "startingOffsets" else 10)
    assert "its log ends at 10" in caplog.text


@pytest.mark.parametrize("fail", ["true", "false"])
def test_retention_overtakes_a_task(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(fake_cluster, 1)
    start = json.dumps({T: {"0": 1}})
    reader = batch_reader(options, startingOffsets=start, failOnDataLoss=fail)
    (stretch,) = reader.partitions()
    topic.partitions[0].delete_before(5)
    if fail == "true":
        with pytest.raises(BrokerError, match="Offsets 1 to 4 of orders-0 are gone: its log begins at 5 now"):
            list(reader.read(stretch))
    else:
        assert sum(batch.num_rows for batch in reader.read(stretch)) == 5
        assert "Offsets 1 to 4 of orders-0 are gone" in caplog.text


def test_what_was_to_begin_at_the_earliest_may_begin_later(
    fake_cluster: FakeClusterThread, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(fake_cluster, 1)
    reader = batch_reader(options)
    (stretch,) = reader.partitions()
    topic.partitions[0].delete_before(5)
    assert sum(batch.num_rows for batch in reader.read(stretch)) == 5
    assert "gone" not in caplog.text


@pytest.mark.parametrize("how", ["recreated", "deleted", "truncated"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_another_topic_of_that_name(
    fake_cluster: FakeClusterThread,
    options: Mapping[str, str],
    how: str,
    fail: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = filled(fake_cluster, 1)
    reader = batch_reader(options, startingOffsets=json.dumps({T: {"0": 6}}), failOnDataLoss=fail)
    (stretch,) = reader.partitions()
    if how == "recreated":
        fill(fake_cluster.recreate_topic(T).partitions[0], 20)
    elif how == "deleted":
        fake_cluster.delete_topic(T)
    else:
        topic.partitions[0].log.clear()
        topic.partitions[0].next_offset = 4
    message = "ends at 4 now" if how == "truncated" else "Topic 'orders' was deleted, or created again, before"
    if fail == "true":
        with pytest.raises(BrokerError, match=message):
            list(reader.read(stretch))
    else:
        assert list(reader.read(stretch)) == []
        assert message in caplog.text


def test_corrupt_records_are_named(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = fake_cluster.create_topic(T, 1)
    damaged = bytearray(stored_batch([b"a" * 50, b"b"]))
    store(topic.partitions[0], bytes(damaged))
    damaged[61] = 1
    stored = topic.partitions[0].log[0]
    topic.partitions[0].log[0] = stored._replace(data=bytes(damaged))
    with pytest.raises(CorruptRecordError, match="Partition 0 of topic 'orders' can't be read: "):
        read(options, **{"kafka.check.crcs": "false"})
    with pytest.raises(CorruptRecordError, match="Partition 0 of topic 'orders' can't be read: The checksum"):
        read(options)


def test_a_reader_that_failed_is_not_used_again(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    filled(fake_cluster, 1)
    reader = batch_reader(options, **{"kafka.default.api.timeout.ms": "300", "kafka.request.timeout.ms": "200"})
    (stretch,) = reader.partitions()
    fake_cluster.fault(FetchRequest, times=None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    key = (Reader, "read_uncommitted", *sorted(reader._options.kafka.items()))
    with pytest.raises(TimeoutError):
        list(reader.read(stretch))
    assert key not in worker._here().clients


def test_stretches_know_their_topic(fake_cluster: FakeClusterThread, options: Mapping[str, str]) -> None:
    topic = filled(fake_cluster, 1)
    (stretch,) = batch_reader(options).partitions()
    assert stretch.topic_id == topic.id
    topic.id = uuid.UUID(int=0)
    (stretch,) = batch_reader(options).partitions()
    assert stretch.topic_id is None
    assert len(read(options)) == 10
