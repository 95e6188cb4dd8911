"""The sink on real brokers: what Spark writes is what an independent consumer reads."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aioprod.spark import each_batch
from aioprod.testing import KafkaCluster
from integration.spark.topics import consumed, new_topic

SECRET = "hunter2"


def write(df: DataFrame, cluster: KafkaCluster, **options: str) -> None:
    writer = df.write.format("aioprod").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.mode("append").save()


def numbers(spark: SparkSession, rows: int, tasks: int = 3) -> DataFrame:
    return spark.range(0, rows, 1, tasks).selectExpr(
        "cast(id as string) as key", "cast(cast(id as string) as binary) as value"
    )


def finished(query: StreamingQuery) -> None:
    assert query.awaitTermination(120)
    assert query.exception() is None


@pytest.mark.parametrize("version", ["kafka", pytest.param("old_kafka", marks=pytest.mark.long)])
def test_every_column(spark: SparkSession, version: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(version)
    one, other = new_topic(cluster, 2), new_topic(cluster, 5)
    when = datetime.datetime(2024, 2, 29, 12, 30, 15, 123_000, datetime.UTC)
    df = spark.createDataFrame(
        [
            ("k1", bytearray(b"v1"), one, 1, [("h", bytearray(b"x")), ("h", None)], when, 1),
            (None, bytearray(b"v2"), other, 4, None, when, 2),
            ("k3", None, other, 3, [], when, 3),
        ],
        "key string, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>, "
        "timestamp timestamp, id long",
    )
    write(df, cluster)
    ms = int(when.timestamp() * 1000)
    assert consumed(cluster, one) == [(1, 0, b"k1", b"v1", [("h", b"x"), ("h", None)], ms)]
    assert sorted(consumed(cluster, other)) == [(3, 0, b"k3", None, [], ms), (4, 0, None, b"v2", [], ms)]


def test_the_option_wins_over_the_column_and_headers_stay_behind(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka)
    df = numbers(spark, 10).selectExpr("*", "'nowhere' as topic", "array(struct('a' as key, key as value)) as headers")
    df = df.selectExpr("key", "value", "topic", "cast(headers as array<struct<key: string, value: binary>>) as headers")
    write(df, kafka, topic=topic, includeHeaders="false")
    rows = consumed(kafka, topic)
    assert {row[2] for row in rows} == {str(number).encode() for number in range(10)}
    assert not any(row[4] for row in rows)


def test_keys_go_where_every_client_sends_them(spark: SparkSession, kafka: KafkaCluster) -> None:
    from aioprod.routing.hashes import murmur2_partition

    topic = new_topic(kafka, 7)
    write(numbers(spark, 20_000), kafka, topic=topic, kafka__compression__type="zstd")
    rows = consumed(kafka, topic)
    assert len(rows) == len({row[2] for row in rows}) == 20_000
    assert all(partition == murmur2_partition(key or b"", 7) for partition, _, key, *_ in rows)


def test_a_stream(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = new_topic(kafka, 3)
    source = tmp_path / "in"
    for part in range(3):
        numbers(spark, 100 * (part + 1)).selectExpr(f"concat('{part}-', key) as key", "value").write.mode(
            "append"
        ).parquet(str(source))
    stream = spark.readStream.schema("key string, value binary").option("maxFilesPerTrigger", 2).parquet(str(source))
    writer = stream.writeStream.format("aioprod").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer = writer.option("topic", topic).option("checkpointLocation", str(tmp_path / "checkpoint"))
    finished(writer.trigger(availableNow=True).start())
    assert Counter((row[2] or b"")[:2] for row in consumed(kafka, topic)) == {b"0-": 100, b"1-": 200, b"2-": 300}
    finished(writer.trigger(availableNow=True).start())
    assert len(consumed(kafka, topic)) == 600


def test_each_batch(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = new_topic(kafka)
    numbers(spark, 50).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("key string, value binary").parquet(str(tmp_path / "in"))
    write_batch = each_batch({"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic})
    writer = stream.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(tmp_path / "checkpoint"))
    finished(writer.trigger(availableNow=True).start())
    assert len(consumed(kafka, topic)) == 50


def test_a_task_that_fails_is_repeated(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka)

    def fail_once(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            raise RuntimeError("injected")

    write(numbers(spark, 3000).mapInArrow(fail_once, "key string, value binary"), kafka, topic=topic)
    counts = Counter(row[2] for row in consumed(kafka, topic))
    assert set(counts) == {str(number).encode() for number in range(3000)}


# --- what raises


def refusal(caught: pytest.ExceptionInfo[Exception]) -> str:
    """The last line of what Spark shows."""
    lines = [line for line in str(caught.value).splitlines() if line.startswith("aioprod.errors.")]
    assert lines, str(caught.value)
    return lines[-1]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["key"], {"topic": "{}"}, "ConfigError: The data frame has no column value; it has key."),
        (["key", "1 as value"], {"topic": "{}"}, "ConfigError: The column 'value' is of type int"),
        (["value"], {}, "ConfigError: There is no topic"),
        (["value"], {"topik": "{}"}, "ConfigError: 'topik' is not an option of aioprod. Hint: Did you mean 'topic'?"),
        (["value"], {"topic": "{}", "kafka__acks": "7"}, "ConfigError: acks must be"),
        (["value", "1L as partition"], {"topic": "{}"}, "ConfigError: The column 'partition' is of type bigint"),
    ],
)
def test_what_no_task_ever_sees(
    spark: SparkSession, kafka: KafkaCluster, columns: list[str], options: dict[str, str], message: str
) -> None:
    topic = new_topic(kafka)
    with pytest.raises(AnalysisException) as caught:
        write(
            numbers(spark, 10).selectExpr(*columns),
            kafka,
            **{name: value.format(topic) for name, value in options.items()},
        )
    assert message in refusal(caught)
    assert consumed(kafka, topic) == []


def test_modes(spark: SparkSession, kafka: KafkaCluster) -> None:
    writer = numbers(spark, 1).write.format("aioprod").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    with pytest.raises(AnalysisException) as caught:
        writer.option("topic", new_topic(kafka)).mode("overwrite").save()
    assert "A Kafka topic can't be overwritten" in refusal(caught)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("'big' as key, repeat('x', 2000000) as value, 0 as partition", "key 'big' and a value of 2000000 bytes"),
        ("'far' as key, 'v' as value, 17 as partition", "key 'far' and a value of 1 bytes"),
    ],
)
def test_a_row_that_can_not_be_sent_fails_the_job(
    spark: SparkSession, kafka: KafkaCluster, row: str, message: str
) -> None:
    with pytest.raises(PythonException) as caught:
        write(spark.sql(f"select {row}"), kafka, topic=new_topic(kafka))
    assert message in refusal(caught)


def test_no_secret_is_in_a_plan_or_an_error(spark: SparkSession, kafka: KafkaCluster) -> None:
    for protocol, message in (("PLAINTEXT", "has no log-in"), ("SASL_SSL", "sasl.jaas.config is malformed")):
        options = {"kafka__security__protocol": protocol, "kafka__sasl__jaas__config": f"password={SECRET}"}
        with pytest.raises(AnalysisException) as caught:
            write(numbers(spark, 1), kafka, topic="t", **options)
        assert message in refusal(caught)
        assert SECRET not in str(caught.value)
