"""The plot: CPU time per record of both clients, for each row with a target of CPU time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.brokers import USUAL
from benchmarks.rows import ROWS, Check, Row
from benchmarks.verdicts import Runs, medians, outcome, runs_of

__all__ = ["plot"]

OURS = "#2f5d8a"
THEIRS = {
    "aiokafka": ("#c8762b", "s"),
    "confluent-kafka": ("#4d7c57", "D"),
    "kcat": ("#8a4f7d", "^"),
    "ProducerPerformance": ("#6b6b6b", "v"),
}
"""The colour and marker of each other client."""
LESS, MORE = "#b8c2cc", "#b04a4a"
"""The colours of the line between both: aioprod took less, aioprod took more."""


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Draw one panel for Kafka and one for the mock broker, and write it as a PNG.

    Each row is two points on a logarithmic axis, so that equal distances are equal ratios, whatever the time.
    """
    brokers = {name: title for name, title in results["brokers"].items() if name in USUAL}
    rows = [
        (row, check)
        for row in ROWS.values()
        for check in row.checks
        if _is_drawn(row, check) and any(outcome(check, runs_of(results, name, row.name)) for name in brokers)
    ]
    figure = Figure(figsize=(12, 0.42 * len(rows) + 1.8), layout="constrained")
    panels = figure.subplots(1, len(brokers), sharey=True, squeeze=False)[0]
    for axes, (broker, title) in zip(panels, brokers.items(), strict=True):
        _draw(axes, results, broker, rows)
        axes.set_title(title, fontsize=10)
    panels[0].set_yticks(range(len(rows)), [_name(row, check) for row, check in rows], fontsize=8)
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.suptitle("CPU time per record: how many times less aioprod takes than the other client", fontsize=11)
    colors = {line.get_color() for axes in panels for line in axes.get_lines()}
    figure.legend(handles=_legend(colors), loc="outside lower center", ncols=7, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110, pad_inches=0.1, bbox_inches="tight")


def _is_drawn(row: Row, check: Check) -> bool:
    return row.unit == "record" and check.metric == "cpu_us" and check.kind == "times"


def _name(row: Row, check: Check) -> str:
    return row.words(check)[0].replace("`", "")


def _client(check: Check, runs: Mapping[str, Runs]) -> str:
    """Return the client with the best time among the others."""
    best = min(check.against, key=lambda label: medians(runs[label])[check.metric])
    return best.split(" ")[0]


def _legend(colors: Collection[Any]) -> list[Line2D]:
    """Return what the drawn colours mean."""
    points = {"aioprod": (OURS, "o")} | {name: look for name, look in THEIRS.items() if look[0] in colors}
    lines = {"aioprod takes less": LESS} | ({"aioprod takes more": MORE} if MORE in colors else {})
    return [
        *(
            Line2D([], [], color=color, marker=marker, linestyle="none", label=name)
            for name, (color, marker) in points.items()
        ),
        *(Line2D([], [], color=color, linewidth=3, label=name) for name, color in lines.items()),
    ]


def _draw(axes: Axes, results: Mapping[str, Any], broker: str, rows: list[tuple[Row, Check]]) -> None:
    for place, (row, check) in enumerate(rows):
        runs = runs_of(results, broker, row.name)
        found = outcome(check, runs)
        if found is not None and found.theirs is not None:
            _pair(axes, place, _client(check, runs), found.ours, found.theirs)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.12)
    axes.grid(axis="x", color="#e3e7ec")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("microseconds per record, user and system (logarithmic; less is better)", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)


def _pair(axes: Axes, place: int, client: str, ours: float, theirs: float) -> None:
    color, marker = THEIRS[client]
    is_less = ours <= theirs
    axes.plot([ours, theirs], [place, place], color=LESS if is_less else MORE, linewidth=3, zorder=1)
    axes.plot(theirs, place, marker, color=color, markersize=7)
    axes.plot(ours, place, "o", color=OURS, markersize=8)
    axes.annotate(
        f"{theirs / ours:.1f}x" if is_less else f"{theirs / ours:.2f}x",
        (max(ours, theirs), place),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color="#1d2530" if is_less else MORE,
        fontweight="normal" if is_less else "bold",
    )
