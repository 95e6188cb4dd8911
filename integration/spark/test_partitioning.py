"""Co-partitioning in Spark: the partitions that aioprod's producer and librdkafka choose, one task for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from aioprod import Producer
from aioprod.routing import HASH_PARTITIONERS
from aioprod.spark import co_partitioned, partition_of, with_partition
from aioprod.spark.partitioning import _by_pandas, _placed, _placed_by_hash
from aioprod.testing import KafkaCluster

COUNT = 12
KEYS = [*(f"key-{number}".encode() for number in range(300)), b"", b"a-little-bit-longer-string", b"\xff\x00"]
Place = Callable[[DataFrame, int, Any], DataFrame]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Two topics, some rows without key, some with a partition of their own."""
    number = F.col("id")
    return spark.range(0, 5000, 1, 4).select(
        F.when(number % 7 != 0, F.concat(F.lit("key-"), number % 900)).alias("key"),
        number.cast("string").cast("binary").alias("value"),
        F.when(number % 3 == 0, "orders").otherwise("bills").alias("topic"),
        F.when(number % 11 == 0, (number % 5).cast("int")).alias("partition"),
        number.alias("at"),
    )


def chosen_by_spark(spark: SparkSession, name: str) -> dict[bytes, int | None]:
    frame = spark.createDataFrame([(bytearray(key),) for key in KEYS], "key binary")
    found = frame.select("key", partition_of(F.col("key"), name, COUNT).alias("partition")).collect()
    return {bytes(row["key"]): row["partition"] for row in found}


@pytest.mark.parametrize("name", [name for name in HASH_PARTITIONERS if name != "consistent"])
async def test_where_aioprods_producer_sends(spark: SparkSession, kafka: KafkaCluster, name: str) -> None:
    topic = f"placed-{name}"
    await kafka.create_topic(topic, COUNT)
    async with Producer(kafka.bootstrap_servers, partitioner=name) as producer:
        sent = [await producer.send(topic, b"v", key=key) for key in KEYS[-40:]]
    expected = {key: one.partition for key, one in zip(KEYS[-40:], sent, strict=True)}
    found = chosen_by_spark(spark, name)
    if name in ("crc32_random", "consistent_random"):
        assert found[b""] is None
        expected.pop(b"")
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["consistent", "murmur2", "murmur2_random", "consistent_random", "fnv1a"])
def test_where_librdkafka_sends(spark: SparkSession, kafka: KafkaCluster, name: str) -> None:
    topic = f"librdkafka-{name}"
    asyncio.run(kafka.create_topic(topic, COUNT))
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": name})
    stored: dict[bytes, int | None] = {}
    for key in KEYS:
        producer.produce(
            topic, b"v", key, on_delivery=lambda _, told: stored.update({told.key() or b"": told.partition()})
        )
    assert producer.flush(30) == 0
    found = chosen_by_spark(spark, name)
    undecided = {key for key, partition in found.items() if partition is None}
    assert undecided == ({b""} if name == "consistent_random" else set())
    # librdkafka takes an empty key for none here, as its consistent_random says; its fnv1a hashes it.
    assert {key: stored[key] for key in KEYS if key} == {key: found[key] for key in KEYS if key}


def test_every_row_gets_a_partition(rows: DataFrame) -> None:
    placed = with_partition(rows, partitioner="default", counts={"orders": 12, "bills": 7}, topic=None).cache()
    assert placed.columns == rows.columns
    assert dict(placed.dtypes)["partition"] == "int"
    assert placed.filter("partition is null or partition < 0").count() == 0
    both = placed.select("at", F.col("partition").alias("now")).join(rows, "at")
    assert both.filter("partition is not null and partition != now").count() == 0
    by_key = both.filter("partition is null and key is not null")
    for topic, count in (("orders", 12), ("bills", 7)):
        expected = partition_of(F.col("key"), "default", count)
        assert by_key.filter(F.col("topic") == topic).filter(expected != F.col("now")).count() == 0
    keyless = both.filter("partition is null and key is null and topic = 'orders'")
    sizes = [row["count"] for row in keyless.groupBy("now").count().collect()]
    assert len(sizes) == 12
    assert max(sizes) < 3 * min(sizes)


def test_rows_without_key_go_to_the_same_place_in_any_order(rows: DataFrame) -> None:
    keyless = rows.drop("key", "partition")

    def placed(frame: DataFrame) -> dict[int, int]:
        found = with_partition(frame, partitioner="default", counts={"t": 9}, topic="t")
        assert "topic" not in found.columns
        return {row["at"]: row["partition"] for row in found.collect()}

    assert placed(keyless) == placed(keyless.repartition(3).orderBy(F.desc("at")))


def test_rows_without_key_go_where_the_empty_key_goes_if_it_is_hashed(spark: SparkSession, rows: DataFrame) -> None:
    expected = chosen_by_spark(spark, "murmur2")[b""]
    for frame in (rows.drop("key", "partition"), rows.drop("partition").filter("key is null")):
        found = with_partition(frame, partitioner="murmur2", counts={"t": COUNT}, topic="t")
        assert [row["partition"] for row in found.select("partition").distinct().collect()] == [expected]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("partition", F.lit, "A row has partition 12, but topic bills has 12 partitions, counted from 0."),
        ("topic", lambda _: F.lit(None).cast("string"), "The topic of a row is null."),
        ("topic", lambda _: F.lit("other"), "The topic other of a row is none of those whose partitions are known."),
    ],
)
def test_rows_that_are_refused(rows: DataFrame, column: str, value: Callable[[int], Any], said: str) -> None:
    wrong = rows.withColumn(column, value(12))
    placed = with_partition(wrong, partitioner="murmur2", counts={"orders": 15, "bills": 12}, topic=None)
    with pytest.raises(PySparkException, match=said):
        placed.filter("topic is null or topic != 'orders'").collect()


def test_a_row_without_partition_is_refused(rows: DataFrame) -> None:
    with pytest.raises(PySparkException, match="A row has no partition"):
        co_partitioned(rows, tasks=3).collect()


@pytest.mark.parametrize("place", [_placed, _placed_by_hash])
@pytest.mark.parametrize("tasks", [1, 5, pytest.param(16, marks=pytest.mark.long)])
def test_partition_p_is_in_task_p_modulo_tasks(rows: DataFrame, place: Place, tasks: int) -> None:
    one = with_partition(rows, partitioner="murmur2", counts={"t": COUNT}, topic="t")
    tasked = place(one, tasks, F.col("partition")).select("partition", F.spark_partition_id().alias("task"))
    found = {row["partition"]: row["task"] for row in tasked.distinct().collect()}
    assert found == {partition: partition % tasks for partition in range(COUNT)}


@pytest.mark.parametrize("has_shuffle_by_id", [True, False])
def test_no_partition_of_many_topics_is_in_two_tasks(
    rows: DataFrame, has_shuffle_by_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_shuffle_by_id:
        monkeypatch.setattr("aioprod.spark.partitioning._placed", _placed_by_hash)
    many = rows.drop("partition").withColumn("topic", F.concat(F.lit("t"), F.col("at") % 40))
    placed = with_partition(many, partitioner="fnv1a", counts={f"t{n}": 1 + n % 9 for n in range(40)}, topic=None)
    tasked = co_partitioned(placed, tasks=6).withColumn("task", F.spark_partition_id())
    where = tasked.groupBy("topic", "partition").agg(
        F.countDistinct("task").alias("tasks"), F.min("task").alias("task")
    )
    found = where.collect()
    assert {row["tasks"] for row in found} == {1}
    assert {row["task"] for row in found} == set(range(6))


def test_order_within_a_partition(rows: DataFrame) -> None:
    coarse = rows.drop("partition").withColumn("hour", F.expr("div(4999 - at, 100)"))
    placed = with_partition(coarse, partitioner="murmur2", counts={"orders": 3, "bills": 5}, topic=None)
    sorted_rows = co_partitioned(placed, tasks=4, order_by="hour")
    assert sorted_rows.columns == placed.columns
    found = sorted_rows.select("topic", "partition", "hour", "at", F.spark_partition_id().alias("task")).collect()
    assert len(found) == 5000
    by_place: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in found:
        by_place.setdefault((row["topic"], row["partition"]), []).append((row["hour"], row["at"]))
    assert all(sequence == sorted(sequence) for sequence in by_place.values())
    neighbours = [(row["task"], row["topic"], row["partition"]) for row in found]
    assert len({*neighbours}) == sum(1 for i, one in enumerate(neighbours) if i == 0 or neighbours[i - 1] != one)


def test_the_function_for_an_older_pyspark_says_the_same(rows: DataFrame) -> None:
    key = F.col("key")
    for count, column in ((9, []), (None, [F.lit(9)])):
        older, newer = _by_pandas("murmur3", count)(key, *column), partition_of(key, "murmur3", 9)
        assert rows.select(older.alias("a"), newer.alias("b")).filter("not (a <=> b)").count() == 0


def test_in_a_micro_batch(spark: SparkSession, tmp_path: Any) -> None:
    found: list[tuple[int, int, int]] = []

    def write(df: DataFrame, batch_id: int) -> None:
        rows = with_partition(df, partitioner="default", counts={"t": 8}, topic="t")
        placed = co_partitioned(rows, tasks=3, order_by="at").select(F.spark_partition_id(), "partition", "at")
        found.extend((row[0], row["partition"], row["at"]) for row in placed.collect())

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 300).option("numPartitions", 2).load()
    stream = stream.selectExpr("cast(value as string) as key", "'v' as value", "value as at")
    query = (
        stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    )
    running = query.start()
    try:
        assert running.awaitTermination(60)
    finally:
        running.stop()
    assert len(found) >= 300
    assert all(task == partition % 3 for task, partition, _ in found)
