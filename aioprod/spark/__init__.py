"""The data pipeline on Spark: sink, source, exactly-once delivery, and the jobs load, audit and plan.

    df.write.format("aioprod").option("kafka.bootstrap.servers", "host:9092").option("topic", "t").mode("append").save()

Names are imported when they are used: most programs need few of them, and some of them much.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aioprod.spark.datasource import AioprodSource, each_batch
    from aioprod.spark.once import Transactions, exactly_once
    from aioprod.spark.planning.job import plan
    from aioprod.spark.planning.measures import PlanReport

__all__ = ["AioprodSource", "PlanReport", "Transactions", "each_batch", "exactly_once", "plan"]

_HOMES: Final = {
    "AioprodSource": "datasource",
    "PlanReport": "planning.measures",
    "Transactions": "once",
    "each_batch": "datasource",
    "exactly_once": "once",
    "plan": "planning.job",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
