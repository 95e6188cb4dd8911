"""The parts of a plan's report, the same on the page and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from aioprod.console.tables import Part, Table, key_text, percent
from aioprod.spark.planning.measures import PlanReport

__all__ = ["headline", "summary", "tables"]


def headline(report: PlanReport) -> str:
    """What was looked at."""
    keyless = f", {report.keyless_rows:,} rows without key" if report.keyless_rows else ""
    return (
        f"{report.rows:,} rows, {report.keys:,} keys ({report.key}){keyless}, {report.bytes:,} bytes of keys and "
        f"values (value: {report.value})."
    )


def summary(report: PlanReport) -> Iterator[Part]:
    """All there is to say on a terminal."""
    yield headline(report)
    yield from tables(report)
    yield report.recommendation


def tables(report: PlanReport) -> Iterator[Table]:
    """In the order in which they are read."""
    yield _load(report)
    yield Table(
        "Hot keys",
        "The keys with most rows, counted exactly.",
        ("key", "rows", "share", "bytes"),
        [(key_text(hot.key), hot.rows, percent(hot.rows, report.rows), hot.bytes) for hot in report.hot_keys],
    )
    if report.consumers is not None:
        yield _consumers(report)
    if report.growth:
        yield _growth(report)
    if report.switches:
        yield _switches(report)


def _load(report: PlanReport) -> Table:
    return Table(
        "Load of the busiest partition",
        "Max/mean: 1 is even. No count gets below the share of the hottest key.",
        ("partitioner", "partitions", "max/mean rows", "max/mean bytes", "busiest", "hottest key", "spread evenly"),
        [
            (
                layout.partitioner,
                layout.count,
                layout.skew,
                layout.bytes_skew,
                percent(layout.busiest_share),
                percent(layout.bound_share),
                percent(layout.spread_rows, report.rows),
            )
            for layout in report.results
        ],
    )


def _consumers(report: PlanReport) -> Table:
    return Table(
        f"Load of {report.consumers} consumers",
        "Rows of the busiest member, and by the mean of all, under each assignor.",
        ("partitioner", "partitions", "assignor", "busiest member", "max/mean", "idle members"),
        [
            (
                layout.partitioner,
                layout.count,
                name,
                max(loads),
                layout.member_skew(name),
                _idle(layout.count, loads),
            )
            for layout in report.results
            for name, loads in layout.members.items()
        ],
    )


def _growth(report: PlanReport) -> Table:
    return Table(
        "Growing",
        "Keys that change their partition when one is added to the topic: their order breaks there, once.",
        ("partitioner", "from", "to", "keys moved", "share of keys", "rows of them", "share of rows"),
        [
            (
                one.partitioner,
                one.count,
                one.to,
                one.keys,
                percent(one.keys, report.keys),
                one.rows,
                percent(one.rows, report.rows),
            )
            for one in report.growth
        ],
    )


def _switches(report: PlanReport) -> Table:
    return Table(
        "Switching the partitioner",
        "Keys that change their partition: their order breaks, and joins by partition with other topics do.",
        ("from", "to", "partitions", "keys moved", "share of keys", "share of rows"),
        [
            (
                one.partitioner,
                one.to,
                one.count,
                one.keys,
                percent(one.keys, report.keys),
                percent(one.rows, report.rows),
            )
            for one in report.switches
        ],
    )


def _idle(count: int, loads: tuple[int, ...]) -> int:
    return max(0, len(loads) - count)
