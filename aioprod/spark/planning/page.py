"""A plan as an HTML page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from aioprod.console.pictures import COLORS, plain
from aioprod.console.tables import key_text
from aioprod.spark.planning.measures import Layout, PlanReport
from aioprod.spark.planning.tables import headline, tables
from aioprod.spark.report import Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["page"]

_PICTURES_MAX: Final = 12
"""Of loads by partition: more are not looked at."""

_GREY: Final = "#5c6672"
"""Of a line that belongs to no partitioner alone."""


def page(report: PlanReport) -> Page:
    """The recommendation, the pictures, the numbers."""
    written = Page("Partition plan")
    written.text(headline(report))
    written.note(report.recommendation)
    first, *rest = tables(report)
    written.section(first.heading)
    written.text(first.says)
    written.table(first.headers, first.rows)
    written.figure(
        "Busiest partition by the mean, for each number of partitions, and the bound below which no count gets.",
        partial(_skews, report),
        alt=f"Max/mean over partition counts. {report.recommendation}",
    )
    chosen = report.result(report.partitioner, report.count)
    shown = [chosen, *(one for one in report.results if one is not chosen and one.count == chosen.count)]
    shown += [one for one in report.results if one.partitioner == chosen.partitioner and one not in shown]
    for layout in shown[:_PICTURES_MAX]:
        written.figure(
            f"Rows of each of {layout.count} partitions with {layout.partitioner}; dashed: the mean.",
            partial(_loads, layout),
            alt=f"Rows per partition: {min(layout.rows):,} to {max(layout.rows):,}, max/mean {layout.skew:.2f}.",
            height_in=2.2,
        )
    for table in rest:
        written.section(table.heading)
        written.text(table.says)
        written.table(table.headers, table.rows)
        if table.heading == "Hot keys":
            written.figure("Rows of the hot keys.", partial(_hot, report), height_in=0.6 + 0.28 * len(report.hot_keys))
        elif chosen.members and table.heading.startswith("Load of"):
            written.figure(
                f"Rows of each member with {chosen.count} partitions and {chosen.partitioner}, under each assignor.",
                partial(_members, chosen),
            )
    return written


def _skews(report: PlanReport, axes: Axes) -> None:
    by_partitioner: dict[str, list[Layout]] = {}
    for layout in report.results:
        by_partitioner.setdefault(layout.partitioner, []).append(layout)
    bounds: dict[tuple[float, ...], list[str]] = {}
    for index, (partitioner, layouts) in enumerate(by_partitioner.items()):
        counts = [layout.count for layout in layouts]
        skews = [layout.skew for layout in layouts]
        axes.plot(counts, skews, marker="o", color=COLORS[index % len(COLORS)], label=plain(partitioner))
        alone = tuple(max(1.0, layout.bound_share * layout.count) for layout in layouts)
        bounds.setdefault(alone, []).append(partitioner)
    # Most often all partitioners hash the hottest key: their lines would hide each other.
    for index, (alone, partitioners) in enumerate(bounds.items()):
        whose = "" if len(bounds) == 1 else f" ({plain(', '.join(partitioners))})"
        axes.plot(
            [layout.count for layout in by_partitioner[partitioners[0]]],
            alone,
            linestyle=("--", ":", "-.")[index % 3],
            linewidth=1.2,
            color=_GREY,
            label=f"bound by the hottest key, at least 1{whose}",
        )
    axes.set_xticks(sorted({layout.count for layout in report.results}))
    axes.set_xlabel("partitions")
    axes.set_ylabel("max/mean rows")
    axes.set_ylim(bottom=0)
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def _loads(layout: Layout, axes: Axes) -> None:
    mean = sum(layout.rows) / layout.count
    axes.bar(range(layout.count), layout.rows, color=COLORS[0], width=0.8)
    axes.axhline(mean, color=COLORS[1], linestyle="--", linewidth=1, label="mean")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1))
    axes.set_xlabel("partition")
    axes.set_ylabel("rows")
    axes.margins(x=0.01)


def _hot(report: PlanReport, axes: Axes) -> None:
    names = [plain(key_text(hot.key, at_most=24)) for hot in report.hot_keys]
    axes.barh(range(len(names)), [100 * hot.rows / report.rows for hot in report.hot_keys], color=COLORS[0])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("% of the rows")
    axes.grid(visible=False)


def _members(layout: Layout, axes: Axes) -> None:
    width = 0.8 / len(layout.members)
    for index, (name, loads) in enumerate(layout.members.items()):
        places = [at - 0.4 + width * (index + 0.5) for at in range(len(loads))]
        axes.bar(places, loads, width=width, color=COLORS[index % len(COLORS)], label=name)
    axes.set_xlabel("member")
    axes.set_ylabel("rows")
    axes.legend(ncols=len(layout.members), loc="lower left", bbox_to_anchor=(0, 1))
