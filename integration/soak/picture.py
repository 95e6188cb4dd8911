"""The picture of a run: memory, tasks, handles and the rate over time, with the faults behind them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from integration.soak.verdict import Fault, Sample

__all__ = ["picture"]

BLUE, ORANGE, GREEN, GREY = "#2f5d8a", "#c8762b", "#4d7c57", "#b8c2cc"
_FAULT_COLORS: Final = ("#b04a4a", "#8a4f7d", "#4d7c57", "#c8762b", "#2f5d8a", "#7a7a7a")
_FAULT_ALPHA: Final = 0.22


def picture(samples: Sequence[Sample], faults: Sequence[Fault], warm_up_s: float, title: str) -> bytes:
    """As a PNG file."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    panels: list[Axes] = list(figure.subplots(4, 1, sharex=True))
    memory, tasks, handles, rate = panels
    minutes = [sample.at_s / 60 for sample in samples]
    memory.plot(minutes, [sample.rss_mb for sample in samples], color=BLUE, label="resident memory")
    memory.set(ylabel="MB")
    objects = memory.twinx()
    objects.plot(minutes, [sample.objects / 1000 for sample in samples], color=ORANGE, linewidth=0.8)
    objects.set_ylabel("1,000 objects of gc", color=ORANGE)
    tasks.plot(minutes, [sample.tasks for sample in samples], color=BLUE, label="tasks")
    tasks.plot(minutes, [sample.threads for sample in samples], color=ORANGE, label="threads")
    handles.plot(minutes, [sample.handles for sample in samples], color=BLUE, label="file handles")
    handles.plot(minutes, [sample.sockets for sample in samples], color=ORANGE, label="sockets among them")
    between = list(pairwise(samples))
    ends = [after.at_s / 60 for _, after in between]
    for name, color in (("sent", GREY), ("acked", BLUE), ("read", ORANGE)):
        rates = [(getattr(b, name) - getattr(a, name)) / max(b.at_s - a.at_s, 0.001) for a, b in between]
        rate.plot(ends, rates, color=color, label=name, linewidth=0.9)
    rate.set(ylabel="records a second", xlabel="minutes", ylim=(0, None))
    names = list(dict.fromkeys(fault.name for fault in faults))
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=GREY, linewidth=0.4)
        axes.axvline(warm_up_s / 60, color=GREY, linestyle="--")
        for fault in faults:
            color = _FAULT_COLORS[names.index(fault.name) % len(_FAULT_COLORS)]
            axes.axvspan(fault.start_s / 60, fault.end_s / 60, color=color, alpha=_FAULT_ALPHA, linewidth=0)
        axes.legend(frameon=False, loc="upper left", ncols=3, fontsize=8)
    for axes in (tasks, handles):
        axes.set_ylim(0, None)
    _name_faults(figure, names)
    figure.suptitle(title, fontsize=10)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()


def _name_faults(figure: Figure, names: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    patches = [
        Patch(color=_FAULT_COLORS[at % len(_FAULT_COLORS)], alpha=_FAULT_ALPHA, label=name)
        for at, name in enumerate(names)
    ]
    if patches:
        figure.legend(handles=patches, loc="outside lower center", ncols=6, fontsize=7, frameon=False)
