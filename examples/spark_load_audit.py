"""A backfill that can be interrupted, and an audit that all of it arrived.

Load a folder of Parquet files into a topic, exactly once, and audit the topic. After an interruption (Ctrl-C, kill -9,
a lost machine) start it again: it continues with the current chunk. The folder has the data and the manifest.

    python examples/spark_load_audit.py localhost:9092 backfill/
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from aioprod.admin import Admin
from aioprod.spark import audit, load

TOPIC = "orders-history"
RUN = "orders-2024"
ROWS = 50_000


def orders(spark: SparkSession, path: Path) -> None:
    """Generate orders of some customers, in a few files, in place of a warehouse."""
    spark.range(0, ROWS, 1, 8).selectExpr(
        "id as order_id",
        "concat('customer-', id % 500) as customer",
        "round(rand(7) * 100, 2) as amount",
        "timestamp_millis(1704067200000 + id * 1000) as ordered_at",
    ).write.mode("overwrite").parquet(str(path))


async def create(bootstrap_servers: str) -> None:
    """Create the topic unless it exists."""
    async with Admin(bootstrap_servers) as admin:
        if TOPIC not in await admin.topics():
            await admin.create_topic(TOPIC, partitions=6)


def main(bootstrap_servers: str, folder: Path) -> int:
    """Return 0 if the topic has every row, once and in order."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    asyncio.run(create(bootstrap_servers))
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not (folder / "orders" / "_SUCCESS").exists():
        orders(spark, folder / "orders")
    report = load(
        spark.read.parquet(str(folder / "orders")),
        bootstrap_servers=bootstrap_servers,
        topic=TOPIC,
        key="customer",
        value="to_json(struct(order_id, amount))",
        headers={"source": "'backfill'"},
        timestamp="ordered_at",
        order_by="ordered_at",
        rate="50MB/s",
        chunks=4,
        run_id=RUN,
        resume=True,
        manifest=str(folder / "manifest"),
    )
    print(report)
    checked = audit(spark, manifest=str(folder / "manifest"), bootstrap_servers=bootstrap_servers, topic=TOPIC)
    print(checked)
    spark.stop()
    return 0 if checked.is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
