"""The processes that run seeds, and what becomes of a seed that ends its process or takes too much."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.simulation.__main__ import DRAWN, _seed
from tests.simulation.workers import MEMORY_MAX, SEED_CPU_S, Workers

RESULT = {"problems": [], "injected": {}, "outcomes": {}, "simulated_s": 0.0}


def command(seeds: range) -> list[str]:
    """A process that is killed by its second seed, as if that had used up its CPU time."""
    lines = [json.dumps(RESULT | {"seed": seed}) for seed in seeds[:1]]
    end = "" if len(seeds) == 1 else "os.kill(os.getpid(), signal.SIGXCPU)"
    return [sys.executable, "-S", "-c", f"import os, signal; print(*{lines!r}, sep=chr(10), flush=True); {end}"]


def test_a_seed_that_ends_its_process_fails_and_the_others_are_run() -> None:
    with Workers(range(10, 15), 2, command) as workers:
        results = {result["seed"]: result["problems"] for result in workers.results()}
    assert sorted(results) == [10, 11, 12, 13, 14]
    assert {seed for seed, problems in results.items() if problems} == {12, 13}
    assert results[12] == [f"The run has no end: it took more than {SEED_CPU_S} s of CPU time."]


def test_a_process_that_can_not_start_is_not_started_again() -> None:
    with Workers(range(3), 1, lambda _: [sys.executable, "-S", "-c", "raise SystemExit(1)"]) as workers:
        assert list(workers.results()) == []


def test_a_seed_has_bounds_of_time_and_memory() -> None:
    code = f"""
import resource
from tests.simulation.workers import bound_process, bound_seed
bound_process()
bound_seed()
assert resource.getrlimit(resource.RLIMIT_CPU)[0] <= {SEED_CPU_S} + 30
try:
    bytearray({MEMORY_MAX})
except MemoryError:
    print("bounded")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "bounded\n"


def test_other_seeds_are_drawn_each_time() -> None:
    drawn = {_seed("new") for _ in range(3)}
    assert len(drawn) == 3
    assert min(drawn) >= DRAWN[0]
    assert _seed("7") == 7
