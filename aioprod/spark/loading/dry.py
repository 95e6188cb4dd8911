"""What a load would do: to which partitions how much would go, and which rows would be too large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aioprod._words import bytes_of
from aioprod.records.bounds import RECORD_OVERHEAD_MAX
from aioprod.records.layout import HEADER
from aioprod.spark.loading.expressions import ORDER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["DryRun", "examine"]

_KEYS_NAMED: Final = 10
_KEY_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a load would send."""

    schema: str
    rows: tuple[int, ...]
    """By partition."""
    bytes: tuple[int, ...]
    """Of keys and values, by partition."""
    oversize: int
    """How many rows are above `limit`."""
    oversize_keys: tuple[str, ...]
    """The first of their keys."""
    limit: int
    """`max.request.size`: a record with its batch header has to be no larger."""

    @property
    def skew(self) -> float:
        """The fullest partition's bytes over the mean."""
        total = sum(self.bytes)
        return max(self.bytes) * len(self.bytes) / total if total else 1.0

    def to_dict(self) -> dict[str, Any]:
        parts = zip(self.rows, self.bytes, strict=True)
        return {
            "schema": self.schema,
            "rows": sum(self.rows),
            "bytes": sum(self.bytes),
            "skew": round(self.skew, 4),
            "partitions": [{"partition": at, "rows": rows, "bytes": size} for at, (rows, size) in enumerate(parts)],
            "oversize": {"rows": self.oversize, "limit": self.limit, "keys": list(self.oversize_keys)},
        }

    def __str__(self) -> str:
        total = sum(self.bytes)
        held, places = bytes_of(total), f"{sum(map(bool, self.rows))} of {len(self.rows)} partitions"
        lines = [
            f"Records: {self.schema}",
            f"{sum(self.rows):,} rows, {held}, to {places}; the fullest holds {self.skew:.2f} times the mean.",
            f"{'partition':>9} {'rows':>14} {'bytes':>10} {'share':>7}",
        ]
        for place, (rows, size) in enumerate(zip(self.rows, self.bytes, strict=True)):
            lines.append(f"{place:>9} {rows:>14,} {bytes_of(size):>10} {size / total if total else 0:>7.1%}")
        if self.oversize:
            keys = ", ".join(self.oversize_keys)
            lines.append(
                f"{self.oversize:,} rows are larger than max.request.size={self.limit} allows; their keys: {keys}"
            )
        return "\n".join(lines)


def examine(records: DataFrame, *, topic: str, partitions: int, partitioner: str, limit: int) -> DryRun:
    """Compute all records, and count them; nothing is sent."""
    from pyspark.sql import functions

    from aioprod.spark.partitioning import with_partition

    placed = with_partition(records, partitioner=partitioner, counts={topic: partitions}, topic=topic)
    is_oversize = _bound(records) > limit
    size = functions.coalesce(_length(records, "key"), functions.lit(0)) + functions.coalesce(
        _length(records, "value"), functions.lit(0)
    )
    sums = (
        placed.groupBy("partition")
        .agg(functions.count("*"), functions.sum(size.cast("long")), functions.count_if(is_oversize))
        .collect()
    )
    rows, sizes = [0] * partitions, [0] * partitions
    for partition, count, total, _ in sums:
        rows[partition], sizes[partition] = count, total
    oversize = sum(row[3] for row in sums)
    keys: list[str] = []
    if oversize:
        key = functions.col("key") if "key" in records.columns else functions.lit(None).cast("binary")
        found = records.where(is_oversize).select(functions.substring(key, 1, _KEY_SHOWN)).limit(_KEYS_NAMED).collect()
        keys = [repr(bytes(row[0]) if isinstance(row[0], bytearray) else row[0]) for row in found]
    fields = [field for field in records.schema if field.name != ORDER]
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
    return DryRun(schema, tuple(rows), tuple(sizes), oversize, tuple(keys), limit)


def _length(records: DataFrame, name: str) -> Column:
    from pyspark.sql import functions

    return functions.octet_length(name) if name in records.columns else functions.lit(0)


def _bound(records: DataFrame) -> Column:
    """The most bytes that a record can take with the header of its batch: what the producer compares."""
    from pyspark.sql import functions

    total = functions.lit(HEADER + RECORD_OVERHEAD_MAX)
    for name in ("key", "value"):
        total += _field(functions.octet_length(name)) if name in records.columns else functions.lit(1)
    if "headers" not in records.columns:
        return total + functions.lit(1)

    def header(sum_: Column, one: Column) -> Column:
        names = functions.octet_length(one.getField("key"))
        return sum_ + _field(names) + _field(functions.octet_length(one.getField("value")))

    headers = functions.coalesce(functions.col("headers"), functions.array().cast(records.schema["headers"].dataType))
    return total + functions.aggregate(headers, _varint(functions.size(headers)), header)


def _field(length: Column) -> Column:
    """A field with its length before it; null is the length -1."""
    from pyspark.sql import functions

    return functions.coalesce(length + _varint(length), functions.lit(1))


def _varint(number: Column) -> Column:
    """How many bytes a number from 0 on takes, zigzagged."""
    from pyspark.sql import functions

    size = functions.when(number < 1 << 6, 1)
    for count in (2, 3, 4):
        size = size.when(number < 1 << (7 * count - 1), count)
    return size.otherwise(5)
