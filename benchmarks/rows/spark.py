"""The rows of Spark, which `make bench-spark` measures: all paths in one JVM, as each start of one takes long."""

from __future__ import annotations

from typing import Final

from benchmarks.rows.row import Check, Contender, Row

__all__ = ["SPARK"]

RECORDS: Final = 2_000_000


def _spark_row(kind: str, *checks: Check) -> Row:
    labels = (f"aioprod {kind}", f"Spark's {kind}")
    return Row(
        f"spark-{kind}",
        f"Spark's {kind}, CPU of JVM and Python above the bare query",
        "",
        tuple(Contender(label, "spark", label, RECORDS) for label in labels),
        checks,
        ("spark",),
        "row",
    )


SPARK: Final = (
    _spark_row("sink", Check("cpu_us", "within", 0.45, ("Spark's sink",), ("aioprod sink",))),
    _spark_row("source", Check("cpu_us", "times", 1, ("Spark's source",), ("aioprod source",))),
)
