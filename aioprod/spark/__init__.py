"""The data pipeline on Spark: sink, source, exactly-once delivery, and the jobs load, audit and plan.

    df.write.format("aioprod").option("kafka.bootstrap.servers", "host:9092").option("topic", "t").mode("append").save()

Names are imported when they are used: most programs need few of them, and some of them much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.spark.auditing import audit
    from aioprod.spark.auditing.report import AuditReport
    from aioprod.spark.datasource import AioprodSource, each_batch
    from aioprod.spark.loading import load
    from aioprod.spark.loading.report import LoadReport
    from aioprod.spark.partitioning import co_partitioned, partition_of, with_partition
    from aioprod.spark.planning.job import plan
    from aioprod.spark.planning.measures import PlanReport
    from aioprod.spark.transactions import Transactions, exactly_once

__all__ = [
    "AioprodSource",
    "AuditReport",
    "LoadReport",
    "PlanReport",
    "Transactions",
    "audit",
    "co_partitioned",
    "each_batch",
    "exactly_once",
    "load",
    "partition_of",
    "plan",
    "with_partition",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "AioprodSource": "datasource",
            "AuditReport": "auditing.report",
            "LoadReport": "loading.report",
            "PlanReport": "planning.measures",
            "Transactions": "transactions",
            "audit": "auditing",
            "co_partitioned": "partitioning",
            "each_batch": "datasource",
            "exactly_once": "transactions",
            "load": "loading",
            "partition_of": "partitioning",
            "plan": "planning.job",
            "with_partition": "partitioning",
        },
    )
