"""A few of the seeds of records on disk, and that a seed happens again as it was."""

from __future__ import annotations

import pytest

from tests.simulation.spool_run import run_spool_seed
from tests.support.length import by_length


@pytest.mark.parametrize("first", range(0, by_length(100, 2000), 50))
def test_promises_of_a_spool_are_kept(first: int) -> None:
    for seed in range(first, first + 50):
        result = run_spool_seed(seed)
        assert result.problems == [], f"Seed {seed}: make simulate KIND=spool REPLAY={seed}"


def test_a_seed_of_a_spool_happens_again_as_it_was() -> None:
    first = run_spool_seed(3)
    run_spool_seed(4)
    assert run_spool_seed(3).digest == first.digest
