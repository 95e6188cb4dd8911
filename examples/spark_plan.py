"""How many partitions does a topic need? `plan()` computes it from the data that will be written; no broker is needed.

It counts where each key would go, for every partitioner and number of partitions that is requested, how evenly a group
of consumers would share the work, and what would move if the topic grew later. The answer is words, numbers and a page.

    python examples/spark_plan.py partition-plan.html
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession

from aioprod.spark import PlanReport, plan

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run on the first python3 of the PATH


def orders(spark: SparkSession, count: int) -> DataFrame:
    """Stands in for a table: few customers order much, many order little."""
    return spark.range(count).selectExpr(
        "concat('customer-', cast(floor(2000 * pow(rand(7), 3)) as int)) as customer",
        "id as number",
        "round(1000 * rand(11), 2) as amount",
    )


def compare(df: DataFrame, page: str) -> PlanReport:
    """For records with the customer as key and the row as JSON, read by eight consumers."""
    return plan(df, key="customer", partitioners=["murmur2", "crc32"], counts=[6, 12, 24, 48], consumers=8, report=page)


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    report = compare(orders(session, 100_000), sys.argv[1])
    for layout in report.results:
        print(f"{layout.partitioner:<8} {layout.count:>3} partitions: the busiest has {layout.skew:.2f} times the mean")
    print(report.recommendation)
    print(f"More is in {sys.argv[1]}.")
    session.stop()
