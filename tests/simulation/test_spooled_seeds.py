"""A few of the seeds of producers that keep records on disk, and that a seed happens again as it was."""

from __future__ import annotations

import pytest

from tests.simulation.spooled_plan import MARKER_FAULTS, SpooledPlan
from tests.simulation.spooled_run import run_spooled_seed
from tests.support.length import by_length


@pytest.mark.parametrize("first", range(0, by_length(10, 100), 5))
def test_promises_of_spooled_producers_are_kept(first: int) -> None:
    for seed in range(first, first + 5):
        result = run_spooled_seed(seed)
        assert result.problems == [], f"Seed {seed}: make simulate KIND=spooled REPLAY={seed}"


def test_what_concerns_the_marker_fails_in_some_seeds() -> None:
    faults = {kind for seed in range(100) for kind in SpooledPlan.draw(seed).faults}
    assert faults >= {*MARKER_FAULTS, "coordinator", "kill", "leader", "cut"}


def test_a_seed_of_a_spooled_producer_happens_again_as_it_was() -> None:
    first = run_spooled_seed(3)
    run_spooled_seed(4)
    assert run_spooled_seed(3).digest == first.digest
