"""The pictures of `docs/scale.md`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.scale.page import PAGE

__all__ = ["write"]

FOLDER: Final = PAGE.parent / "images"
BLUE, ORANGE, GREY = "#2f5d8a", "#c8762b", "#b8c2cc"


def write(results: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Draw all of them as PNG files."""
    folder.mkdir(exist_ok=True)
    _single(results["single"]).savefig(folder / "scale-single.png", dpi=100)
    _outage(results["outage"]).savefig(folder / "scale-outage.png", dpi=100)
    _cut(results["cut"]).savefig(folder / "scale-cut.png", dpi=100)


def _figure(panels: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(color=GREY, linewidth=0.4)
    return figure, list(axes)


def _single(rows: list[Mapping[str, Any]]) -> Figure:
    figure, (memory, cpu) = _figure(2)
    partitions = [row["partitions"] for row in rows]
    memory.plot(partitions, [row["memory_mb"] for row in rows], "o-", color=BLUE)
    memory.set(xlabel="partitions written to", ylabel="MB", title="memory of one producer")
    cpu.plot(partitions, [row["cpu_s"] for row in rows], "o-", color=ORANGE)
    cpu.set(xlabel="partitions written to", ylabel="s", title="CPU time for one record to each")
    for axes in (memory, cpu):
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
    return figure


def _outage(outages: Mapping[str, Any]) -> Figure:
    figure, (lost, checked) = _figure(2)
    fleet = outages["fleet"]["attempts"]
    lost.step(range(len(fleet)), fleet, where="post", color=BLUE)
    lost.set(xlabel="s since the loss", ylabel="attempts a second", ylim=(0, None))
    lost.set_title(f"{outages['fleet']['producers']:,} producers, one broker (computed)")
    for how, color in (("simulated", ORANGE), ("modelled", BLUE)):
        attempts = outages[how]["attempts"]
        checked.step(range(len(attempts)), attempts, where="post", color=color, label=how)
    checked.set(xlabel="s since the loss", ylim=(0, None))
    checked.set_title(f"the model and {outages['simulated']['producers']:,} simulated producers")
    checked.legend(frameon=False)
    return figure


def _cut(rows: list[Mapping[str, Any]]) -> Figure:
    figure, panels = _figure(2)
    for axes, row in zip(panels, rows, strict=True):
        times = [10 * step for step in range(len(row["delivered_by_time"]))]
        delivered, failed = row["delivered_by_time"], row["failed_by_time"]
        axes.stackplot(times, delivered, failed, colors=[BLUE, ORANGE], labels=["delivered", "failed"])
        leaders = "leaders move to this side" if row["moves"] else "leaders stay out of reach"
        axes.set(xlabel="s, time of sending", ylabel="records in 10 s", title=leaders)
    panels[1].legend(frameon=True, loc="lower right")
    return figure
