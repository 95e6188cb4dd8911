"""The plots of docs/performance.md, drawn from the results of the benchmarks: medians of all runs, with their range."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from tools.documentation.links import ROOT
from tools.documentation.pictures.drawing import ACCENT, QUIET, THEIRS, Drawing

__all__ = ["PLOTS", "RESULTS", "measured"]

RESULTS: Final = ROOT / "benchmarks" / "results" / "results.json"


class Pair(NamedTuple):
    """A row of the benchmark: ours and theirs, by the labels of the contenders."""

    row: str
    ours: str
    theirs: str
    name: str


_CPU: Final = (
    Pair("nowait-16k", "aioprod", "confluent-kafka produce", "send_nowait, beside confluent-kafka produce"),
    Pair("submit-gather", "aioprod", "aiokafka", "submit, gather, beside aiokafka send"),
    Pair("tasks", "aioprod", "aiokafka", "1000 tasks of send, beside aiokafka send_and_wait"),
    Pair("send-many", "aioprod", "confluent-kafka produce_batch", "send_many, beside confluent-kafka produce_batch"),
)


def measured(results: Mapping[str, Any], row: str, contender: str, metric: str) -> list[float]:
    """The figures of one contender in one row beside the real broker; raises KeyError where there are none."""
    for entry in results["entries"]:
        if (entry["broker"], entry["row"], entry["contender"]) == ("kafka", row, contender):
            return [run[metric] for run in entry["runs"]]
    raise KeyError(f"{RESULTS.name} has no row {row!r} of {contender!r}: the plot can't be drawn.")


def _bars(title: str, unit: str, metric: str, pairs: Sequence[Pair], digits: int) -> Drawing:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    found = [
        (pair, measured(results, pair.row, pair.ours, metric), measured(results, pair.row, pair.theirs, metric))
        for pair in pairs
    ]
    words = "; ".join(
        f"{pair.name}: {median(ours):,.{digits}f} and {median(theirs):,.{digits}f} {unit}"
        for pair, ours, theirs in found
    )
    drawing = Drawing(860, 90 + 78 * len(found), title, f"Medians of {results['runs']} runs, aioprod first. {words}.")
    drawing.text(430, 32, title, size=16, bold=True)
    drawing.text(
        430, 54, f"{unit}, less is better; the thin line is the range of {results['runs']} runs", size=12, color=QUIET
    )
    scale = 600 / max(max(theirs) for _, _, theirs in found)
    for number, (pair, ours, theirs) in enumerate(found):
        top = 84 + 78 * number
        drawing.text(20, top, pair.name, size=12, at="start")
        for place, (runs, color) in enumerate(((ours, ACCENT), (theirs, THEIRS))):
            y = top + 10 + 24 * place
            drawing.bar(20, y, median(runs) * scale, 18, color)
            drawing.line(20 + min(runs) * scale, y + 9, 20 + max(runs) * scale, y + 9, color="#1d2b33")
            drawing.text(28 + max(runs) * scale, y + 14, f"{median(runs):,.{digits}f}", size=12, at="start")
    drawing.bar(640, 64, 12, 12, ACCENT)
    drawing.text(658, 75, "aioprod", size=12, at="start")
    drawing.bar(728, 64, 12, 12, THEIRS)
    drawing.text(746, 75, "the other client", size=12, at="start")
    return drawing


def cpu() -> Drawing:
    return _bars("CPU time of a record", "us per record", "cpu_us", _CPU, 2)


def latency() -> Drawing:
    pairs = [
        Pair("idle", "aioprod", "aiokafka", "one await send at a time, beside aiokafka send_and_wait"),
        Pair("tasks", "aioprod", "aiokafka", "1000 tasks of send, beside aiokafka send_and_wait"),
    ]
    return _bars("Time until the acknowledgement, 99th percentile", "us", "p99_us", pairs, 0)


PLOTS: Final[dict[str, Callable[[], Drawing]]] = {"cpu.svg": cpu, "latency.svg": latency}
