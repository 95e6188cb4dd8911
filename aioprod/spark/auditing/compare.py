"""The full pass: each row that was found with its receipt, row by row, to name those that are wrong.

A row is identified by its hash. Equal rows are numbered, in each partition, by their offsets: the second one that was
promised is the second one that is found. What has no partner in its partition is looked for in the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aioprod.spark.auditing.report import KINDS, Finding, key_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = ["Compared", "compare"]

_LIMIT: Final = 20


@dataclass(frozen=True, slots=True)
class Compared:
    """Exact counts by kind, and the first rows of each kind, by partition and offset."""

    counts: Mapping[str, int]
    findings: tuple[Finding, ...]


def compare(promised: DataFrame, found: DataFrame, *, limit: int = _LIMIT) -> Compared:
    """Both have the columns partition int, offset long, key binary and hash long; offsets need not be the same ones."""
    from pyspark import StorageLevel

    both = _matched(promised, found).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        wrong = _inversions(both).unionByName(_moved(both, promised)).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return _summed(wrong, limit)
        finally:
            wrong.unpersist()
    finally:
        both.unpersist()


def _matched(promised: DataFrame, found: DataFrame) -> DataFrame:
    """Every row of either side, with its partner in the same partition where there is one."""
    from pyspark.sql import Window, functions

    equals = Window.partitionBy("partition", "hash").orderBy("offset")
    left = promised.select(
        "partition",
        "hash",
        functions.row_number().over(equals).alias("nth"),
        functions.col("offset").alias("promised_at"),
        functions.col("key").alias("promised_key"),
    )
    right = found.select(
        "partition",
        "hash",
        functions.row_number().over(equals).alias("nth"),
        functions.col("offset").alias("found_at"),
        functions.col("key").alias("found_key"),
    )
    return left.join(right, ["partition", "hash", "nth"], "full_outer")


def _inversions(both: DataFrame) -> DataFrame:
    """Rows that stand before the row which they were promised to follow.

    Where one of several equal rows is lost or duplicated, nothing shows which one it is: their order is not compared.
    """
    from pyspark.sql import Window, functions

    promised_order = Window.partitionBy("partition").orderBy("promised_at")
    unclear = both.where("promised_at is null or found_at is null").select("partition", "hash").distinct()
    pairs = both.where("promised_at is not null and found_at is not null").join(
        unclear, ["partition", "hash"], "left_anti"
    )
    before = functions.lag("found_at").over(promised_order)
    return (
        pairs.select("partition", "found_at", "found_key", before.alias("before"))
        .where("found_at < before")
        .selectExpr(
            "'out_of_order' as kind",
            "found_key as key",
            "partition",
            "found_at as offset",
            "cast(null as int) as promised_partition",
            "before as after_offset",
        )
    )


def _moved(both: DataFrame, promised: DataFrame) -> DataFrame:
    """Rows without a partner in their partition: in another one, or lost, or once more, or from elsewhere."""
    from pyspark.sql import Window, functions

    equals = functions.row_number().over(Window.partitionBy("hash").orderBy("partition", "at"))
    missing = both.where("found_at is null").select(
        "hash", "partition", functions.col("promised_at").alias("at"), functions.col("promised_key").alias("key")
    )
    surplus = both.where("promised_at is null").select(
        "hash", "partition", functions.col("found_at").alias("at"), functions.col("found_key").alias("key")
    )
    pairs = (
        missing.withColumn("nth", equals)
        .alias("m")
        .join(surplus.withColumn("nth", equals).alias("s"), ["hash", "nth"], "full_outer")
    )
    known = promised.select(functions.col("hash").alias("known")).distinct()
    return pairs.join(known, functions.col("hash") == functions.col("known"), "left").selectExpr(
        "case when s.at is null then 'lost' when m.at is not null then 'misplaced' "
        "when known is not null then 'duplicated' else 'extra' end as kind",
        "coalesce(s.key, m.key) as key",
        "coalesce(s.partition, m.partition) as partition",
        "coalesce(s.at, m.at) as offset",
        "case when s.at is not null then m.partition end as promised_partition",
        "cast(null as long) as after_offset",
    )


def _summed(wrong: DataFrame, limit: int) -> Compared:
    from pyspark.sql import Window, functions

    counts = dict.fromkeys(KINDS, 0)
    counts.update({row[0]: row[1] for row in wrong.groupBy("kind").count().collect()})
    place = functions.row_number().over(Window.partitionBy("kind").orderBy("partition", "offset"))
    first = wrong.withColumn("place", place).where(functions.col("place") <= limit).collect()
    first.sort(key=lambda row: (KINDS.index(row.kind), row.partition, row.offset))
    return Compared(counts, tuple(map(_finding, first)))


def _finding(row: Row) -> Finding:
    key = None if row.key is None else bytes(row.key)
    return Finding(row.kind, key_text(key), row.partition, row.offset, row.promised_partition, row.after_offset)
