"""How many partitions does a topic need? `plan()` computes it from the data that will be written, without a broker.

For each partitioner and number of partitions it counts the rows of each partition, how evenly a group of consumers
would share them, and how many keys would move if partitions were added. It returns text, numbers and a page.

    python examples/spark_plan.py partition-plan.html
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession

from aioprod.spark import PlanReport, plan

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run on the first python3 of the PATH


def orders(spark: SparkSession, count: int) -> DataFrame:
    """Generate orders, in place of a table: a few customers order much, many order little."""
    return spark.range(count).selectExpr(
        "concat('customer-', cast(floor(2000 * pow(rand(7), 3)) as int)) as customer",
        "id as number",
        "round(1000 * rand(11), 2) as amount",
    )


def compare(df: DataFrame, page: str) -> PlanReport:
    """Plan a topic of records with the customer as key and the row as JSON, read by eight consumers."""
    return plan(df, key="customer", partitioners=["murmur2", "crc32"], counts=[6, 12, 24, 48], consumers=8, report=page)


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    report = compare(orders(session, 100_000), sys.argv[1])
    for layout in report.results:
        print(f"{layout.partitioner:<8} {layout.count:>3} partitions: the busiest has {layout.skew:.2f} times the mean")
    print(report.recommendation)
    print(f"More is in {sys.argv[1]}.")
    session.stop()
