"""The verdict of a run: whether what the process needs grows with what it has done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final, NamedTuple

__all__ = ["ALLOWED", "MB_PER_MILLION_MAX", "Check", "Fault", "Sample", "calm", "checks", "slope", "warm_up_s"]

MB_PER_MILLION_MAX: Final = 2.0
"""Two bytes a record: a leak of one small object in fifty records is found."""
_GROWTH_MIN_MB: Final = 8.0
"""What a process may grow by in all: pools fill, and over few records that looks like a slope."""
_SCALE: Final = 1e6
_WARM_UP_S: Final = 300.0
_WARM_UP_SHARE: Final = 0.4
_LEVEL_SAMPLES: Final = 10
_RECOVERY_S: Final = 5.0
_POINTS_MAX: Final = 300

ALLOWED: Final[Mapping[str, int]] = {"tasks": 4, "sockets": 6, "threads": 2, "handles": 8}
"""How many more there may be at the end: a connection to another coordinator, a thread of a pool."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The process at `at_s` of the run.

    `tasks` are without those of single sends, `handles` has the sockets, too, and `objects` is what gc watches.
    `sent`, `acked`, `failed`, `read` are records since the beginning; `held` those that the check keeps itself.
    """

    at_s: float
    rss_mb: float
    tasks: int
    sockets: int
    threads: int
    handles: int
    objects: int
    cpu_s: float
    gap_ms: float
    sent: int
    acked: int
    failed: int
    read: int
    held: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Fault(NamedTuple):
    """A fault, from its beginning to the end of the recovery, in seconds of the run."""

    name: str
    start_s: float
    end_s: float


class Check(NamedTuple):
    """A line of the verdict: what was looked at, whether it is as it has to be, and the numbers."""

    what: str
    is_fine: bool
    says: str


def warm_up_s(minutes: float) -> float:
    """How long the pools of a run of so many minutes have time to fill: five minutes, in short runs two fifths."""
    return min(_WARM_UP_S, minutes * 60 * _WARM_UP_SHARE)


def calm(samples: Sequence[Sample], faults: Sequence[Fault], after_s: float) -> list[Sample]:
    """The samples from `after_s` on that no fault disturbs; all of them where that leaves fewer than ten."""
    later = [sample for sample in samples if sample.at_s >= after_s]
    found = [
        sample
        for sample in later
        if not any(fault.start_s <= sample.at_s <= fault.end_s + _RECOVERY_S for fault in faults)
    ]
    return found if len(found) >= _LEVEL_SAMPLES else later


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between any two points (Theil and Sen): single outliers do not move it. 0 for none.

    Of many points it takes a few hundred, evenly.
    """
    step = -(-len(points) // _POINTS_MAX) or 1
    taken = points[::step]
    slopes = [
        (y2 - y1) / (x2 - x1) for index, (x1, y1) in enumerate(taken) for x2, y2 in taken[index + 1 :] if x2 != x1
    ]
    return median(slopes) if slopes else 0.0


def checks(samples: Sequence[Sample], faults: Sequence[Fault], flaws: Mapping[str, int], after_s: float) -> list[Check]:
    """The verdict, in lines; the run is fine when all of them are."""
    if not samples:
        return [Check("samples", False, "there are none")]
    last = samples[-1]
    found = [
        Check("no loss, no duplicate, in order", not flaws, _said(flaws) if flaws else f"{last.acked:,} records"),
        Check("no record failed", not last.failed, f"{last.failed:,} of {last.sent:,}"),
    ]
    quiet = calm(samples, faults, after_s)
    if not quiet:
        return [*found, Check("no trend", False, "the run ended before its warm-up")]
    return [*found, _memory(quiet), *(_level(name, quiet) for name in ALLOWED)]


def _said(flaws: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in flaws.items())


def _memory(quiet: Sequence[Sample]) -> Check:
    per_million = slope([(sample.acked / _SCALE, sample.rss_mb) for sample in quiet])
    grown = per_million * (quiet[-1].acked - quiet[0].acked) / _SCALE
    is_fine = per_million <= MB_PER_MILLION_MAX or grown <= _GROWTH_MIN_MB
    says = f"{per_million:+.2f} MB per million records, {grown:+.1f} MB in all"
    return Check(f"memory: at most {MB_PER_MILLION_MAX:g} MB per million, or {_GROWTH_MIN_MB:g} MB", is_fine, says)


def _level(name: str, quiet: Sequence[Sample]) -> Check:
    before = median(getattr(sample, name) for sample in quiet[:_LEVEL_SAMPLES])
    after = median(getattr(sample, name) for sample in quiet[-_LEVEL_SAMPLES:])
    allowed = ALLOWED[name]
    return Check(f"{name}: at most {allowed} more", after <= before + allowed, f"{before:g}, at the end {after:g}")
