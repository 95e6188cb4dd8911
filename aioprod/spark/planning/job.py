"""`plan`: what the data say about partition counts and partitioners, found in one pass over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aioprod.config import load_class
from aioprod.errors import ConfigError
from aioprod.group.assignors import ASSIGNORS, Subscription, balance
from aioprod.routing.columns import check_count, partitions_of, rule_of
from aioprod.routing.partitioners import RoundRobinPartitioner, UniformStickyPartitioner
from aioprod.spark.inputs import quiet, spark_errors
from aioprod.spark.planning.advice import advise
from aioprod.spark.planning.measures import Growth, HotKey, Layout, PlanReport, Switch
from aioprod.spark.planning.survey import SCHEMA, Fact, Survey, task
from aioprod.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["checked", "plan", "report_of"]

_COUNT_MAX: Final = 100_000
"""More partitions than a topic ever has: what a typing error would cost the tasks in memory."""

_COMBINATIONS_MAX: Final = 1_000_000
_HOT_SHOWN: Final = 10


def plan(
    df: DataFrame,
    *,
    key: str | Column,
    partitioners: Sequence[str] = ("murmur2",),
    counts: Sequence[int],
    value: str | Column | None = None,
    consumers: int | None = None,
    report: str | Path | None = None,
) -> PlanReport:
    """Find out how a topic's partitions would be loaded with these rows, without a broker.

    `key` and `value` are Spark SQL expressions or columns, of type string or binary as records have them. Without
    `value` the bytes are those of a column `value`, or else of the row as JSON. Every partitioner is tried with every
    count, and, with `consumers`, under every assignor. `report` is the path of an HTML page to write.

    Raises ConfigError, before any task runs where that is possible: for an unknown partitioner, counts that can't be,
    an expression that can't be used, and for data without a row.
    """
    survey = checked(partitioners, counts, consumers)
    with quiet(), spark_errors("The data can't be planned for"):
        records, said = _records(df, key, value)
        from pyspark.sql import functions

        by_key = records.groupBy("key").agg(functions.count("*").alias("rows"), functions.sum("bytes").alias("bytes"))
        answer = by_key.mapInArrow(task(survey), SCHEMA).toArrow()
    found = report_of(survey, answer, key=str(key), value=said, consumers=consumers)
    if report is not None:
        from aioprod.spark.planning.page import page

        page(found).save(report)
    return found


def checked(partitioners: Sequence[str], counts: Sequence[int], consumers: int | None) -> Survey:
    """What tasks count; raises ConfigError for what can't be counted."""
    named = tuple(dict.fromkeys([partitioners] if isinstance(partitioners, str) else partitioners))
    if not named:
        raise ConfigError("There is no partitioner to try.", hint="Give one, for example murmur2.")
    if not counts:
        raise ConfigError("There is no number of partitions to try.", hint="Give some, for example 12,24,48.")
    for count in counts:
        if check_count(count) > _COUNT_MAX:
            raise ConfigError(f"A plan for {count} partitions is not made: at most {_COUNT_MAX:,} are.")
    if len(named) * sum(counts) > _COMBINATIONS_MAX:
        raise ConfigError(f"A plan is made for at most {_COMBINATIONS_MAX:,} partitions in all: give fewer counts.")
    if consumers is not None and (type(consumers) is not int or not 1 <= consumers <= _COUNT_MAX):
        raise ConfigError(f"consumers is {consumers!r}: it must be an int from 1 to {_COUNT_MAX}.")
    spreading = frozenset(
        name for name in named if load_class(name, "partitioner") in (RoundRobinPartitioner, UniformStickyPartitioner)
    )
    for name in named:
        if name not in spreading:
            rule_of(name)
    return Survey(named, tuple(sorted(set(counts))), spreading)


def _records(df: DataFrame, key: str | Column, value: str | Column | None) -> tuple[DataFrame, str]:
    """Columns `key` (binary) and `bytes` of key and value, and what the value is said to be."""
    from pyspark.sql import functions

    said = "the row as JSON" if value is None else str(value)
    if value is None and dict(df.dtypes).get("value") in ("string", "binary"):
        value, said = functions.col("value"), "value"
    keys = _column(df, "key", key)
    values = functions.to_json(functions.struct("*")) if value is None else _column(df, "value", value)
    sizes = [functions.coalesce(functions.octet_length(column), functions.lit(0)) for column in (keys, values)]
    return df.select(keys.cast("binary").alias("key"), (sizes[0] + sizes[1]).cast("long").alias("bytes")), said


def _column(df: DataFrame, name: str, given: str | Column) -> Column:
    from pyspark.sql import functions

    with spark_errors(f"The expression for {name}, {str(given)!r}, can't be used"):
        column = functions.expr(given) if isinstance(given, str) else given
        kind = df.select(column.alias("it")).schema[0].dataType.simpleString()
    if not kind.startswith(("string", "binary", "varchar", "char")):
        raise ConfigError(
            f"The {name} is of type {kind}: a record's {name} is string or binary.",
            hint=f"Cast it as the records will have it, for example cast({given} as string).",
        )
    return column


def report_of(survey: Survey, answer: pa.Table, *, key: str, value: str, consumers: int | None) -> PlanReport:
    """What the tasks' answers say together; raises ConfigError if they saw no row."""
    sums = _sums(answer)
    rows, bytes_, keys = sums.get(Fact("total"), (0, 0, 0))
    if not rows:
        raise ConfigError("The data have no rows: there is nothing to plan for.")
    hot = _hot_keys(survey, answer)
    largest = {partitioner: _largest_hashed(survey, partitioner, hot) for partitioner in survey.partitioners}
    layouts = tuple(
        _layout(survey, sums, partitioner, count, largest[partitioner], consumers)
        for partitioner in survey.partitioners
        for count in survey.counts
    )
    growth = tuple(
        Growth(partitioner, smaller, larger, *_moved(sums, Fact("growth", partitioner, "", smaller, larger)))
        for partitioner in survey.partitioners
        if partitioner not in survey.spreading
        for smaller, larger in survey.steps
    )
    switches = tuple(
        Switch(fact.partitioner, fact.other, fact.partitions, *_moved(sums, fact))
        for fact in sorted(sums)
        if fact.kind == "switch"
    )
    advice = advise(layouts, hot, growth, consumers)
    return PlanReport(
        key=key,
        value=value,
        rows=rows,
        bytes=bytes_,
        keys=keys,
        keyless_rows=sum(each.rows for each in hot if each.key is None),
        hot_keys=tuple(hot[:_HOT_SHOWN]),
        results=layouts,
        growth=growth,
        switches=switches,
        consumers=consumers,
        partitioner=advice.layout.partitioner,
        count=advice.layout.count,
        recommendation=advice.text,
    )


def _sums(answer: pa.Table) -> Mapping[Fact, tuple[int, int, int]]:
    by = list(Fact._fields)
    added = answer.group_by(by).aggregate([("rows", "sum"), ("bytes", "sum"), ("keys", "sum")])
    columns = [added.column(name).to_pylist() for name in (*by, "rows_sum", "bytes_sum", "keys_sum")]
    return {Fact(*row[: len(by)]): (row[-3], row[-2], row[-1]) for row in zip(*columns, strict=True) if row[0] != "hot"}


def _moved(sums: Mapping[Fact, tuple[int, int, int]], fact: Fact) -> tuple[int, int]:
    rows, _, keys = sums.get(fact, (0, 0, 0))
    return rows, keys


def _hot_keys(survey: Survey, answer: pa.Table) -> list[HotKey]:
    import pyarrow.compute as pc

    hot = answer.filter(pc.equal(answer.column("kind"), "hot"))
    found = [
        HotKey(key, rows, bytes_)
        for key, rows, bytes_ in zip(*(hot.column(name).to_pylist() for name in ("key", "rows", "bytes")), strict=True)
    ]
    return sorted(found, key=lambda each: (-each.rows, each.key or b""))[: survey.hot]


def _largest_hashed(survey: Survey, partitioner: str, hot: Sequence[HotKey]) -> int:
    """The rows of the hottest key that the partitioner hashes, 0 for none."""
    import pyarrow as pa

    if partitioner in survey.spreading:
        return 0
    keys = pa.array([each.key for each in hot], pa.binary())
    hashed = [partitions_of(keys.slice(at, 1), partitioner, 1, start=None).spread == 0 for at in range(len(hot))]
    return max((each.rows for each, is_hashed in zip(hot, hashed, strict=True) if is_hashed), default=0)


def _layout(
    survey: Survey,
    sums: Mapping[Fact, tuple[int, int, int]],
    partitioner: str,
    count: int,
    largest: int,
    consumers: int | None,
) -> Layout:
    loads = [sums.get(Fact("load", partitioner, "", count, index), (0, 0, 0)) for index in range(count)]
    spread_rows, spread_bytes, spread_keys = sums.get(Fact("spread", partitioner), (0, 0, 0))
    rows = _with_even(loads, 0, spread_rows)
    return Layout(
        partitioner,
        count,
        rows,
        _with_even(loads, 1, spread_bytes),
        tuple(load[2] for load in loads) if not spread_keys else _with_even(loads, 2, spread_keys),
        spread_rows,
        largest,
        {} if consumers is None else _members(rows, consumers),
    )


def _with_even(loads: Sequence[tuple[int, int, int]], column: int, spread: int) -> tuple[int, ...]:
    each, more = divmod(spread, len(loads))
    return tuple(load[column] + each + (index < more) for index, load in enumerate(loads))


def _members(rows: Sequence[int], consumers: int) -> dict[str, tuple[int, ...]]:
    """Rows of each member under each assignor, all members reading this one topic."""
    members = {f"member-{index:0{len(str(consumers))}}": Subscription(["topic"]) for index in range(consumers)}
    loads: dict[str, tuple[int, ...]] = {}
    sizes = {TopicPartition("topic", index): count for index, count in enumerate(rows)}
    for name, assignor in ASSIGNORS.items():
        assignment = assignor.assign({"topic": len(rows)}, members)
        # The names sort as the numbers in them do.
        loads[name] = tuple(int(load) for load in balance(assignment, sizes=sizes).loads.values())
    return loads
