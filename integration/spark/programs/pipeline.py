"""Each Spark feature of aioprod once, in a session of the given kind: `pipeline.py KIND SERVERS TOPIC TOPIC FOLDER`.

KIND is `classic`, `connect` (a Spark Connect server on this machine), or `submitted` (the session that spark-submit
created). It imports only what a user's program would import, and no test code. It prints a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

ROWS = 2000
TASKS = 3
COUNTS = {"t": 12}


def session(kind: str) -> SparkSession:
    """Quiet, on loopback, of this interpreter."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    made: SparkSession = builder.getOrCreate()
    return made


def numbers(spark: SparkSession) -> DataFrame:
    """Rows with the keys `key-<number>`."""
    return spark.range(0, ROWS, 1, 3).select(
        F.concat(F.lit("key-"), "id").alias("key"), F.col("id").cast("string").alias("value")
    )


def finished(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself."""
    try:
        if not query.awaitTermination(180):
            raise SystemExit("The query goes on.")
    finally:
        query.stop()


def write_stream(spark: SparkSession, options: Mapping[str, str], folder: Path) -> str:
    """Write a stream of files; how it was done."""
    numbers(spark).write.parquet(str(folder / "in"))
    stream = spark.readStream.schema("key string, value string").parquet(str(folder / "in"))
    writer = stream.writeStream.option("checkpointLocation", str(folder / "written")).trigger(availableNow=True)
    if hasattr(datasource, "DataSourceStreamArrowWriter"):
        finished(writer.format("aioprod").options(**options).start())
        return "format"
    from aioprod.spark import each_batch

    finished(writer.foreachBatch(each_batch(options)).start())
    return "foreachBatch"


def co_partition(spark: SparkSession) -> dict[str, list[int]]:
    """The tasks in which the rows of each partition are."""
    from aioprod.spark import co_partitioned, with_partition

    rows = with_partition(numbers(spark), partitioner="murmur2", counts=COUNTS, topic="t")
    rows = co_partitioned(rows, tasks=TASKS, order_by="value")
    tasks: dict[str, list[int]] = {}
    for row in rows.select("partition", F.spark_partition_id().alias("task")).distinct().collect():
        tasks.setdefault(str(row["partition"]), []).append(row["task"])
    return tasks


def read_back(spark: SparkSession, servers: str, topic: str, folder: Path) -> tuple[int, int]:
    """How many different rows a batch and a stream read."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("aioprod").options(**options).load().select("key", "value").distinct().count()
    stream = spark.readStream.format("aioprod").options(**options).load().select("key", "value")
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / "read"))
    query = writer.option("path", str(folder / "out")).trigger(processingTime="1 second").start()
    try:
        while not query.recentProgress or query.recentProgress[-1]["numInputRows"] == 0:
            if query.exception() is not None:
                raise SystemExit(str(query.exception()))
            query.awaitTermination(1)
        query.processAllAvailable()
    finally:
        query.stop()
    return batch, spark.read.parquet(str(folder / "out")).distinct().count()


def main(kind: str, servers: str, topic: str, stream_topic: str, folder: Path) -> None:
    """Do all of it."""
    spark = session(kind)
    options = {"kafka.bootstrap.servers": servers, "topic": topic}
    numbers(spark).write.format("aioprod").options(**options).mode("append").save()
    how = write_stream(spark, options | {"topic": stream_topic}, folder)
    tasks = co_partition(spark)
    batch, stream = read_back(spark, servers, topic, folder)
    import aioprod

    told = {
        "pyspark": pyspark.__version__,
        "aioprod": aioprod.__file__,
        "compiled": aioprod.COMPILED,
        "stream": how,
        "tasks": tasks,
        "read by a batch": batch,
        "read by a stream": stream,
        "remote": "connect" in type(spark).__module__,
    }
    print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0], given[1], given[2], given[3], Path(given[4]))
