"""The plot: processor time per record of both sides in each row that has such a target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.rows import ROWS, Check, Row
from benchmarks.verdicts import outcome, runs_of

__all__ = ["plot"]

OURS = "#2f6f9f"
THEIRS = "#c9c9c9"
BAR = 0.38


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Draw one panel per broker, and write it as a PNG."""
    rows = [(row, check) for row in ROWS.values() for check in row.checks if _is_drawn(check)]
    figure = Figure(figsize=(11, 0.42 * len(rows) + 1.4), layout="constrained")
    panels = figure.subplots(1, len(results["brokers"]), sharey=True, squeeze=False)[0]
    for axes, (broker, title) in zip(panels, results["brokers"].items(), strict=True):
        _draw(axes, results, broker, rows)
        axes.set_title(title, fontsize=10)
    panels[0].set_yticks(range(len(rows)), [row.title.replace("`", "") for row, _ in rows], fontsize=8)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, fontsize=8)
    figure.savefig(path, dpi=110)


def _is_drawn(check: Check) -> bool:
    return check.metric == "cpu_us" and check.kind == "times"


def _draw(axes: Axes, results: Mapping[str, Any], broker: str, rows: list[tuple[Row, Check]]) -> None:
    found = [outcome(check, runs_of(results, broker, row.name)) for row, check in rows]
    shown = [(place, one) for place, one in enumerate(found) if one is not None and one.theirs is not None]
    places = [place for place, _ in shown]
    axes.barh([p - BAR / 2 for p in places], [one.ours for _, one in shown], BAR, color=OURS, label="aioprod")
    theirs = [one.theirs or 0.0 for _, one in shown]
    axes.barh([p + BAR / 2 for p in places], theirs, BAR, color=THEIRS, label="the other client")
    for place, one in shown:
        axes.annotate(
            f"{one.value:.1f}x",
            (max(one.ours, one.theirs or 0.0), place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.margins(x=0.15, y=0.01)
    axes.set_xlabel("CPU us per record (user + system, less is better)", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
