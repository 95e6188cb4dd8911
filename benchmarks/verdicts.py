"""The evaluation of measurements: medians, ratios, and whether a target is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.rows import Check

__all__ = ["Outcome", "Runs", "lowest", "medians", "outcome", "runs_of"]

Runs = Sequence[Mapping[str, Any]]
"""The figures of one contender in one row, one mapping per run."""

METRICS = ("cpu_us", "records_per_s", "p50_us", "p99_us", "gap_ms", "peak_mb", "growth_mb")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One target on one broker: the metric of both sides, the value with the bound, and the verdict.

    `value` is computed from the medians, `lowest` from the lowest run of each side, which other work disturbed least.
    `theirs` is None if the target is a limit.
    """

    ours: float
    theirs: float | None
    value: float
    lowest: float
    reached: bool

    @property
    def is_behind(self) -> bool:
        """Whether the other one needs less."""
        return self.theirs is not None and self.theirs < self.ours


def runs_of(results: Mapping[str, Any], broker: str, row: str) -> dict[str, Runs]:
    """Return the runs of each contender of a row."""
    return {
        entry["contender"]: entry["runs"]
        for entry in results["entries"]
        if entry["broker"] == broker and entry["row"] == row
    }


def medians(runs: Runs) -> dict[str, float]:
    """Return the median of each metric that all runs have."""
    return _each(runs, median)


def lowest(runs: Runs) -> dict[str, float]:
    """Return the lowest value of each metric."""
    return _each(runs, min)


def _each(runs: Runs, pick: Callable[[list[float]], float]) -> dict[str, float]:
    found = {}
    for metric in METRICS:
        values = [run[metric] for run in runs if run.get(metric) is not None]
        if runs and len(values) == len(runs):
            found[metric] = float(pick(values))
    return found


def outcome(check: Check, runs: Mapping[str, Runs]) -> Outcome | None:
    """Judge a row's measurements, given by contender; None if one on which the target depends is missing."""
    if any(check.metric not in medians(runs.get(label, ())) for label in (*check.ours, *check.against)):
        return None
    ours, theirs = _sides(check, runs, medians)
    value = _value(check, ours, theirs)
    reached = value >= check.bound if check.kind == "times" else value <= check.bound
    return Outcome(ours, theirs, value, _value(check, *_sides(check, runs, lowest)), reached)


def _sides(
    check: Check, runs: Mapping[str, Runs], pick: Callable[[Runs], dict[str, float]]
) -> tuple[float, float | None]:
    """Return our worst and their best value; in every metric with a target less is better."""
    ours = max(pick(runs[label])[check.metric] for label in check.ours)
    theirs = min((pick(runs[label])[check.metric] for label in check.against), default=None)
    return ours, theirs


def _value(check: Check, ours: float, theirs: float | None) -> float:
    if theirs is None:
        return ours
    return theirs / ours if check.kind == "times" else ours / theirs
