"""A few of the seeds of `make simulate`, and that a seed happens again as it was."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.plan import FAULTS, LOG_IN_FAULTS, TRANSACTION_FAULTS, Plan
from tests.simulation.run import run_seed
from tests.support.length import by_length

SEEDS = by_length(10, 40)


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_promises_are_kept(first: int) -> None:
    for seed in range(first, first + 10):
        result = run_seed(seed)
        assert result.problems == [], f"Seed {seed}: make simulate REPLAY={seed}"


def test_every_kind_of_fault_is_injected() -> None:
    injected = {kind for seed in range(400) for kind in Plan.draw(seed).faults}
    assert injected == {*FAULTS, *TRANSACTION_FAULTS, *LOG_IN_FAULTS}


def test_a_seed_happens_again_as_it_was() -> None:
    """In this process, after others, and in a process of its own."""
    lines: list[str] = []
    first = run_seed(11, lines.append)
    run_seed(12)
    again = run_seed(11)
    assert first.digest == again.digest
    assert len(lines) > 50
    command = [sys.executable, "-m", "tests.simulation", "--replay=11"]
    replays = {
        subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True).stdout for _ in range(2)
    }
    assert len(replays) == 1
    assert replays.pop().endswith("No promise was broken.\n")
