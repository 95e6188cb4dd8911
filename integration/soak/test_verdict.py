"""The verdict's arithmetic: a leak is found, and faults, pools that fill and single outliers are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from integration.soak.picture import picture
from integration.soak.verdict import ALLOWED, Fault, Sample, calm, checks, slope, warm_up_s

FIRST = Sample(
    at_s=0.0,
    rss_mb=80.0,
    tasks=20,
    sockets=12,
    threads=3,
    handles=20,
    objects=50_000,
    cpu_s=1.0,
    gap_ms=3.0,
    sent=0,
    acked=0,
    failed=0,
    read=0,
    held=100,
)
RATE = 3000


def hour(change: Callable[[Sample], Sample] = lambda sample: sample) -> list[Sample]:
    """A sample every five seconds of an hour."""
    return [
        change(replace(FIRST, at_s=5.0 * at, sent=5 * at * RATE, acked=5 * at * RATE, read=5 * at * RATE))
        for at in range(720)
    ]


def failed(samples: list[Sample], faults: list[Fault] | None = None, flaws: dict[str, int] | None = None) -> list[str]:
    found = checks(samples, faults or [], flaws or {}, 300.0)
    return [check.what.partition(":")[0] for check in found if not check.is_fine]


def test_a_level_run_is_fine() -> None:
    assert failed(hour()) == []


@pytest.mark.parametrize(("bytes_a_record", "found"), [(0.5, []), (1.5, []), (3.0, ["memory"]), (100.0, ["memory"])])
def test_memory_that_grows_with_the_records_is_found(bytes_a_record: float, found: list[str]) -> None:
    samples = hour(lambda sample: replace(sample, rss_mb=80 + sample.acked * bytes_a_record / 1e6))
    assert failed(samples) == found


def test_memory_that_grows_steeply_over_few_records_is_a_pool_that_fills() -> None:
    samples = hour(lambda sample: replace(sample, rss_mb=80 + sample.acked * 5 / 1e6))
    assert failed([sample for sample in samples if sample.at_s < 600]) == []


def test_faults_and_outliers_are_no_trend() -> None:
    faults = [Fault("leader killed", at, at + 30.0) for at in range(200, 3600, 120)]

    def disturbed(sample: Sample) -> Sample:
        if any(fault.start_s <= sample.at_s <= fault.end_s for fault in faults):
            return replace(sample, tasks=500, rss_mb=80 + sample.at_s / 10, sockets=90)
        return replace(sample, rss_mb=300.0) if sample.at_s % 500 == 0 else sample

    assert failed(hour(disturbed), faults) == []


@pytest.mark.parametrize("name", ALLOWED)
def test_one_more_than_is_allowed_at_the_end_is_found(name: str) -> None:
    def later(more: int) -> Callable[[Sample], Sample]:
        return lambda sample: replace(sample, **{name: getattr(sample, name) + (more if sample.at_s > 3000 else 0)})

    assert failed(hour(later(ALLOWED[name]))) == []
    assert failed(hour(later(ALLOWED[name] + 1))) == [name]


def test_flaws_and_failed_records_are_said() -> None:
    samples = hour()
    samples[-1] = replace(samples[-1], failed=2)
    assert failed(samples, flaws={"lost": 1}) == ["no loss, no duplicate, in order", "no record failed"]


def test_without_samples_or_calm_there_is_no_yes() -> None:
    assert failed([]) == ["samples"]
    assert failed(hour()[:10]) == ["no trend"]


def test_calm_leaves_out_faults_and_their_recovery() -> None:
    found = calm(hour(), [Fault("leader frozen", 1000.0, 1020.0)], 300.0)
    assert found[0].at_s == 300.0
    assert not any(1000 <= sample.at_s <= 1025 for sample in found)
    assert calm(hour(), [Fault("leader frozen", 0.0, 3600.0)], 300.0)[0].at_s == 300.0


def test_slope_is_that_of_most_points() -> None:
    assert slope([]) == slope([(1.0, 1.0)]) == slope([(1.0, 1.0), (1.0, 5.0)]) == 0.0
    points = [(float(at), 2.0 * at + (1000 if at % 7 == 0 else 0)) for at in range(1000)]
    assert slope(points) == pytest.approx(2.0, abs=0.2)


def test_a_short_run_has_a_short_warm_up() -> None:
    assert [warm_up_s(minutes) for minutes in (2, 60)] == [48.0, 300.0]


def test_a_run_has_a_picture() -> None:
    drawn = picture(hour()[:50], [Fault("leader killed", 10.0, 30.0)], 48.0, "a run")
    assert drawn.startswith(b"\x89PNG")
    assert picture(hour()[:1], [], 48.0, "a short run").startswith(b"\x89PNG")
