"""What tasks say that they have done, and whether it fits together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioprod.errors import UsageError
from aioprod.spark.sink.written import Written

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RECEIPTS", "REPORTS", "Report", "batch_of", "disjoint", "reports_of"]

REPORTS: Final = (
    "task int, tasks int, attempt long, rows long, topic string, partition int, count long, first long, last long"
)
"""The columns of what a task returns: a row for each partition, or one without a topic if it had no rows at all."""

RECEIPTS: Final = "partition int, offset long, key binary, hash long, bytes int, attempt long"
"""The columns of a receipt, a row for each record: `bytes` of key and value, `attempt` the task attempt's id."""


class Report(NamedTuple):
    """What one task says that it has done."""

    task: int
    tasks: int
    attempt: int
    rows: int
    written: tuple[Written, ...]


def _rows_of(report: Report) -> list[tuple[Any, ...]]:
    head = report[:4]
    return [(*head, one.topic, one.partition, one.count, one.first, one.last) for one in report.written] or [
        (*head, None, None, None, None, None)
    ]


def reports_of(rows: Iterable[Any]) -> list[Report]:
    """The same on the driver: rows of `REPORTS` as they were collected."""
    heads: dict[tuple[int, int, int, int], list[Written]] = {}
    for row in rows:
        parts = heads.setdefault((row[0], row[1], row[2], row[3]), [])
        if row[4] is not None:
            parts.append(Written(*row[4:9]))
    return [Report(*head, tuple(parts)) for head, parts in heads.items()]


def batch_of(report: Report) -> pa.RecordBatch:
    """A report as Arrow data, of just the types that were declared: Spark does not check them."""
    import pyarrow as pa

    types = {"int": pa.int32(), "long": pa.int64(), "string": pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in (column.split() for column in REPORTS.split(", "))])
    arrays = [
        pa.array(column, field.type) for column, field in zip(zip(*_rows_of(report), strict=True), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def disjoint(reports: Iterable[Report], *, are_tasks: bool = True) -> tuple[Written, ...]:
    """What all tasks have written, by topic and partition; brokers would commit as well what is not right.

    Raises UsageError where two tasks wrote to one partition (what the second one wrote was taken for a repetition of
    the first one's), where a task is missing, and where one has read more rows than were stored.
    """
    reports = list(reports)
    owners: dict[tuple[str, int], Written] = {}
    for report in reports:
        stored = sum(one.count for one in report.written)
        if stored != report.rows:
            raise UsageError(f"Task {report.task} read {report.rows} rows, of which {stored} were stored.")
        for one in report.written:
            if (one.topic, one.partition) in owners:
                raise UsageError(
                    f"Two tasks wrote to {one.topic}-{one.partition} in one transaction: rows may be lost in it.",
                    hint="Rows of one partition have to be in one task: aioprod.spark.partitioning.co_partitioned.",
                )
            owners[one.topic, one.partition] = one
    tasks = {report.task for report in reports}
    if are_tasks and reports and tasks != set(range(reports[0].tasks)):
        raise UsageError(f"Of {reports[0].tasks} tasks only {len(tasks)} reported what they wrote.")
    return tuple(owners[place] for place in sorted(owners))
