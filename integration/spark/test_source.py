"""The source on real brokers: what Spark reads is what an independent consumer reads."""

from __future__ import annotations

import datetime
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from aioprod.testing import KafkaCluster
from integration.spark.topics import Found, consumed, new_topic

NOW = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(cluster: KafkaCluster, topic: str, rows: Iterable[dict[str, Any]], **settings: object) -> None:
    """Rows are arguments of `Producer.produce`."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, **settings})
    for number, row in enumerate(rows):
        producer.produce(topic, **row)
        if number % 10_000 == 9_999:
            producer.flush(60)
    assert producer.flush(60) == 0


def numbered(count: int, partition: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"value": b"%d" % number, "partition": partition, "timestamp": NOW + number}
        for number in range(first, first + count)
    ]


def batch(spark: SparkSession, cluster: KafkaCluster, **options: str) -> DataFrame:
    reader = spark.read.format("aioprod").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**{name.replace("__", "."): value for name, value in options.items()}).load()


def found(df: DataFrame) -> list[Found]:
    """In the shape of `consumed`."""
    rows = df.selectExpr("*", "unix_millis(timestamp) as ms").collect()
    has_headers = "headers" in df.columns
    return sorted(
        (
            (
                row["partition"],
                row["offset"],
                None if row["key"] is None else bytes(row["key"]),
                None if row["value"] is None else bytes(row["value"]),
                [
                    (one["key"], None if one["value"] is None else bytes(one["value"]))
                    for one in (row["headers"] if has_headers else None) or []
                ],
                row["ms"],
            )
            for row in rows
        ),
        key=lambda row: row[:2],
    )


def places(df: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in df.select("partition", "offset").collect())


class Stream:
    """A query into Parquet that reads what there is, and its checkpoint, from which it goes on when run again."""

    def __init__(self, spark: SparkSession, cluster: KafkaCluster, folder: Path, **options: str) -> None:
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "startingOffsets": "earliest", **options}
        self._folder = folder
        self.rows: list[int] = []

    def run(self, **options: str) -> None:
        """Until the end that the topics have now; `rows` are then the rows of each micro-batch."""
        stream = self._spark.readStream.format("aioprod").options(**{**self._options, **options}).load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writer.option("path", str(self._folder / "out")).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(120)
            self.rows = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
        finally:
            query.stop()

    def found(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of all that was written, with duplicates."""
        df = self._spark.read.parquet(str(self._folder / "out"))
        return sorted((row["topic"], row["partition"], row["offset"]) for row in df.collect())


def recreate(cluster: KafkaCluster, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 30
    while True:
        try:
            admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)
            return
        except Exception as error:
            if "exists" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def delete_before(cluster: KafkaCluster, topic: str, partition: int, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result(30)


# --- batches


@pytest.mark.parametrize("version", ["kafka", pytest.param("old_kafka", marks=pytest.mark.long)])
def test_all_that_is_there(spark: SparkSession, version: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(version)
    topic = new_topic(cluster, 3)
    dice = random.Random(1)
    rows = [
        {
            "key": dice.choice([None, b"", b"key-%d" % dice.randrange(50)]),
            "value": dice.choice([None, b"", dice.randbytes(dice.randrange(300)), b"text " * dice.randrange(2000)]),
            "headers": [(f"h{index}", dice.choice([None, b"", b"x"])) for index in range(dice.randrange(3))],
            "timestamp": NOW + dice.randrange(10_000),
            "partition": dice.randrange(3),
        }
        for _ in range(5000)
    ]
    for index, codec in enumerate(CODECS):
        produce(cluster, topic, rows[1000 * index : 1000 * (index + 1)], **{"compression.type": codec})
    df = batch(spark, cluster, subscribe=topic, includeHeaders="true")
    assert df.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    assert found(df) == consumed(cluster, topic)
    kinds = df.groupBy("topic", "timestampType").agg(
        expr("count_if(headers is null)"), expr("count_if(size(headers) = 0)")
    )
    assert [tuple(row) for row in kinds.collect()] == [(topic, 0, sum(not row["headers"] for row in rows), 0)]


@pytest.mark.long
def test_many_rows_in_many_pieces(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka, 2)
    produce(kafka, topic, ({"value": b"%0100d" % number, "key": b"%d" % number} for number in range(200_000)))
    for options in ({}, {"minPartitions": "7"}, {"maxRecordsPerPartition": "30000"}):
        df = batch(spark, kafka, subscribe=topic, **options)
        numbers = "cast(cast(value as string) as long)"
        df = df.selectExpr("*", "spark_partition_id() as task")
        row = df.selectExpr("count(*)", f"sum({numbers})", f"bit_xor(xxhash64({numbers}))", "max(task)")
        xor = spark.range(200_000).selectExpr("bit_xor(xxhash64(id))").collect()[0][0]
        ((count, total, hashes, last_task),) = row.collect()
        assert (count, total, hashes) == (200_000, sum(range(200_000)), xor)
        assert last_task == 1 if not options else last_task >= 6


def test_a_schema_of_fewer_columns(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka)
    produce(kafka, topic, numbered(5, 0))
    reader = spark.read.format("aioprod").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    df = reader.option("subscribe", topic).schema("offset long, value binary").load()
    assert [(row["offset"], bytes(row["value"])) for row in df.orderBy("offset").collect()] == [
        (number, b"%d" % number) for number in range(5)
    ]


def test_the_brokers_clock_and_large_rows(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka, 1, message_timestamp_type="LogAppendTime", max_message_bytes=20_000_000)
    before = datetime.datetime.now() - datetime.timedelta(seconds=1)
    produce(kafka, topic, [{"value": bytes([size % 251]) * size} for size in (1, 9_000_000, 5, 6_000_000)],
            **{"message.max.bytes": 20_000_000})  # fmt: skip
    rows = batch(spark, kafka, subscribe=topic).orderBy("offset").collect()
    assert [len(row["value"]) for row in rows] == [1, 9_000_000, 5, 6_000_000]
    assert all(row["timestampType"] == 1 and row["timestamp"] > before for row in rows)


def test_limits(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka, 2)
    produce(kafka, topic, numbered(100, 0) + numbered(50, 1))
    start = json.dumps({topic: {"0": 90, "1": -2}})
    end = json.dumps({topic: {"0": -1, "1": 10}})
    wanted = [(0, offset) for offset in range(90, 100)] + [(1, offset) for offset in range(10)]
    assert places(batch(spark, kafka, subscribe=topic, startingOffsets=start, endingOffsets=end)) == wanted
    times = {"startingTimestamp": str(NOW + 40), "endingTimestamp": str(NOW + 45)}
    wanted = [(partition, offset) for partition in range(2) for offset in range(40, 45)]
    assert places(batch(spark, kafka, subscribe=topic, **times)) == wanted
    each = json.dumps({topic: {"0": NOW + 98, "1": NOW + 60}})
    late = batch(spark, kafka, subscribe=topic, startingOffsetsByTimestamp=each,
                 startingOffsetsByTimestampStrategy="latest")  # fmt: skip
    assert places(late) == [(0, 98), (0, 99)]
    ended = batch(spark, kafka, subscribe=topic, endingOffsetsByTimestamp=json.dumps({topic: {"0": NOW, "1": NOW + 1}}))
    assert places(ended) == [(1, 0)]
    assert places(batch(spark, kafka, assign=json.dumps({topic: [1]}))) == [(1, offset) for offset in range(50)]
    assert places(batch(spark, kafka, subscribePattern=topic[:-1] + ".")) == places(
        batch(spark, kafka, subscribe=topic)
    )
    assert batch(spark, kafka, subscribe=new_topic(kafka)).count() == 0


@pytest.mark.parametrize("version", ["kafka", pytest.param("old_kafka", marks=pytest.mark.long)])
def test_only_what_was_committed(spark: SparkSession, version: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(version)
    topic = new_topic(cluster, 2)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(30)
    for transaction in range(6):
        producer.begin_transaction()
        for row in numbered(20, 0, 20 * transaction) + numbered(20, 1, 20 * transaction):
            producer.produce(topic, **row)
        producer.flush(30)
        if transaction % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    committed = batch(spark, cluster, subscribe=topic, isolation__level="read_committed", minPartitions="5")
    assert found(committed) == consumed(cluster, topic, "read_committed")
    assert committed.count() == 120
    everything = batch(spark, cluster, subscribe=topic)
    assert found(everything) == consumed(cluster, topic, "read_uncommitted")
    assert everything.count() == 241
    producer.abort_transaction(30)


# --- streams


@pytest.mark.parametrize("version", ["kafka", pytest.param("old_kafka", marks=pytest.mark.long)])
def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, version: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    cluster: KafkaCluster = request.getfixturevalue(version)
    topic = new_topic(cluster, 2)
    produce(cluster, topic, numbered(60, 0) + numbered(15, 1))
    stream = Stream(spark, cluster, tmp_path, subscribe=topic, maxOffsetsPerTrigger="25")
    stream.run()
    assert len(stream.rows) >= 3
    assert max(stream.rows) <= 25
    produce(cluster, topic, numbered(10, 1, 15))
    stream.run()
    assert sum(stream.rows) == 10
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    produce(cluster, topic, numbered(5, 3))
    stream.run()
    wanted = [(topic, 0, offset) for offset in range(60)] + [(topic, 1, offset) for offset in range(25)]
    assert stream.found() == wanted + [(topic, 3, offset) for offset in range(5)]
    stream.run()
    assert stream.rows == []


def test_a_stream_of_a_pattern_with_a_trigger(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = new_topic(kafka)
    produce(kafka, topic, numbered(10, 0))
    stream = (
        spark.readStream.format("aioprod")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribePattern", f"{topic}.*")
        .option("startingOffsets", "earliest")
        .option("kafka.metadata.max.age.ms", "500")
        .load()
    )
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.option("path", str(tmp_path / "out")).trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(f"{topic}-2", 1)])[f"{topic}-2"].result(30)
        produce(kafka, f"{topic}-2", numbered(5, 0))
        query.processAllAvailable()
        produce(kafka, topic, numbered(5, 0))
        query.processAllAvailable()
        assert query.lastProgress is not None
    finally:
        query.stop()
    assert query.exception() is None
    rows = spark.read.parquet(str(tmp_path / "out")).select("topic", "offset").collect()
    wanted = [(topic, offset) for offset in range(15)] + [(f"{topic}-2", offset) for offset in range(5)]
    assert sorted((row["topic"], row["offset"]) for row in rows) == wanted


@pytest.mark.parametrize("how", ["retention", pytest.param("recreated", marks=pytest.mark.long)])
def test_lost_data(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path, how: str) -> None:
    topic = new_topic(kafka)
    produce(kafka, topic, numbered(10, 0))
    stream = Stream(spark, kafka, tmp_path, subscribe=topic)
    stream.run()
    if how == "retention":
        produce(kafka, topic, numbered(20, 0, 10))
        delete_before(kafka, topic, 0, 25)
        message, left = f"Offsets 10 to 24 of {topic}-0 are gone: its log begins at 25", range(25, 30)
    else:
        recreate(kafka, topic)
        produce(kafka, topic, numbered(30, 0))
        message, left = f"Topic '{topic}' was deleted and created again", range(30)
    with pytest.raises(StreamingQueryException) as caught:
        stream.run()
    assert message in str(caught.value)
    stream.run(failOnDataLoss="false")
    assert stream.found() == sorted((topic, 0, offset) for offset in (*range(10), *left))


def test_lost_data_of_a_batch(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka)
    produce(kafka, topic, numbered(10, 0))
    delete_before(kafka, topic, 0, 5)
    wanted = [(0, offset) for offset in range(5, 10)]
    assert places(batch(spark, kafka, subscribe=topic)) == wanted
    start = json.dumps({topic: {"0": 2}})
    with pytest.raises(AnalysisException, match=f"Offsets 2 to 4 of {topic}-0 are gone"):
        batch(spark, kafka, subscribe=topic, startingOffsets=start).count()
    assert places(batch(spark, kafka, subscribe=topic, startingOffsets=start, failOnDataLoss="false")) == wanted


# --- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Exactly one of subscribe, subscribePattern, assign"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "Did you mean 'startingOffsets'"),
        ({"subscribe": "nowhere-at-all"}, "Topic 'nowhere-at-all' does not exist"),
        ({"subscribe": "a", "kafka.fetch.max.byte": "1"}, "fetch.max.bytes"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "A batch can't begin at the latest offset"),
    ],
)
def test_what_is_refused_on_the_driver(
    spark: SparkSession, kafka: KafkaCluster, options: dict[str, str], message: str
) -> None:
    with pytest.raises((AnalysisException, PythonException)) as caught:
        batch(spark, kafka, **options).count()
    assert message in str(caught.value)


def test_a_stream_with_an_end_is_refused(spark: SparkSession, kafka: KafkaCluster) -> None:
    stream = spark.readStream.format("aioprod").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    loaded = stream.option("subscribe", new_topic(kafka)).option("endingOffsets", "latest").load()
    query = loaded.writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match="A stream has no end: endingOffsets can be used"):
        query.awaitTermination(60)
