"""What the measurements mean: medians, ratios, verdicts; and the tables made of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

METRICS = ("cpu_us", "records_per_s", "p50_us", "p99_us", "gap_ms", "peak_mb", "growth_mb")


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The median of each metric over the runs; a metric that a run lacks is left out."""
    found = {}
    for metric in METRICS:
        values = [run[metric] for run in runs]
        if None not in values and values:
            found[metric] = float(median(values))
    return found
