"""How many tasks can run at once, which is how many a barrier may have, and what Spark can't do with barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_session", "slots_of"]


def check_session(spark: SparkSession) -> None:
    """Raise UsageError or ConfigError for a session in which no barrier can run."""
    if not hasattr(spark, "_jsparkSession"):
        raise UsageError(
            "exactly_once needs a classic Spark session: through Spark Connect there is no barrier to be had.",
            hint='writeStream.format("aioprod").option("delivery", "exactly-once") works there.',
        )
    if str(spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        raise ConfigError(
            "spark.dynamicAllocation.enabled is true: Spark can't run barriers then (SPARK-24942), which exactly-once "
            "delivery needs.",
            hint="Set it to false and give spark.executor.instances.",
        )


def slots_of(spark: SparkSession) -> int:
    """How many tasks the executors that are there now can run at once, at least 1."""
    context = spark.sparkContext._jsc.sc()
    try:
        profile = context.resourceProfileManager().defaultResourceProfile()
        slots = int(context.maxNumConcurrentTasks(profile))
    except Exception:  # Spark's own, of no version in particular: what it lets users see is a guess
        slots = spark.sparkContext.defaultParallelism
    return max(1, slots)
