"""A few of the seeds of members at work, and that a seed happens again as it was."""

from __future__ import annotations

import pytest

from tests.simulation.member_run import run_member_seed
from tests.support.length import by_length

SEEDS = by_length(10, 100)


@pytest.mark.parametrize("first", range(0, SEEDS, 5))
def test_promises_of_work_are_kept(first: int) -> None:
    for seed in range(first, first + 5):
        result = run_member_seed(seed)
        assert result.problems == [], f"Seed {seed}: make simulate KIND=members REPLAY={seed}"


def test_a_seed_of_members_happens_again_as_it_was() -> None:
    first = run_member_seed(3)
    run_member_seed(4)
    assert run_member_seed(3).digest == first.digest
