"""How many tasks can run at once, which is how many a barrier may have, and what Spark can't do with barriers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from aioprod.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_session", "check_tasks", "slots_of", "slots_soon"]

_WAIT_S: Final = 10.0
"""How long executors are waited for that are not there yet."""
_LOOKS_EVERY_S: Final = 0.1


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


def slots_soon(spark: SparkSession, wanted: int) -> int:
    """The same; where that is fewer than `wanted`, executors that may still be on their way are waited for a little."""
    deadline = time.monotonic() + _WAIT_S
    while (slots := slots_of(spark)) < wanted and time.monotonic() < deadline:
        time.sleep(_LOOKS_EVERY_S)
    return slots


def check_tasks(spark: SparkSession, tasks: int | None) -> None:
    """Raise ConfigError where fewer than `tasks` can run at once, also after a little while."""
    if tasks is None:
        return
    slots = slots_soon(spark, tasks)
    if tasks > slots:
        raise ConfigError(
            f"tasks is {tasks}, but the session has {slots} slots: all of a barrier's tasks run at once.",
            hint="Lower it, or leave it out.",
        )
