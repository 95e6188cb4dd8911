"""What the lanes of `make test` cost: how many tests, how long, and how much CPU.

`python -m tools.lanes NAME COMMAND...` runs a lane's command in a shell and keeps its figures in `build/lanes`;
`python -m tools.lanes` prints those of all lanes in one line. CPU is that of every process that a lane has
started and that has ended, also of those whose parent did not wait for them, where Linux hands them over.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

__all__ = ["FOLDER", "Cost", "add_tests", "line", "main"]

FOLDER: Final = Path("build/lanes")
_LANE: Final = "AIOPROD_LANE"
_PR_SET_CHILD_SUBREAPER: Final = 36
_ORPHANS_END_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one lane."""

    name: str
    tests: int
    seconds: float
    cpu: float

    def __str__(self) -> str:
        tests = f"{self.tests:,} tests, " if self.tests else ""
        return f"{self.name} {tests}{self.seconds:.0f} s, {self.cpu:.0f} CPU s"


def add_tests(count: int) -> None:
    """Called at the end of each run of pytest: the lane that it is part of has run so many tests more."""
    if lane := os.environ.get(_LANE):
        with Path(lane).open("a") as file:
            file.write(f"{count}\n")


def line(costs: Iterable[Cost]) -> str:
    """All lanes beside one another, which took as long as the longest of them."""
    costs = sorted(costs, key=lambda cost: cost.name)
    total = Cost(
        "all",
        sum(cost.tests for cost in costs),
        max((cost.seconds for cost in costs), default=0.0),
        sum(cost.cpu for cost in costs),
    )
    return "; ".join(map(str, [*costs, total]))


def main(arguments: Sequence[str]) -> int:
    """Run a lane, or print what all have cost; returns the exit status."""
    if not arguments:
        print(line(Cost(**json.loads(path.read_text())) for path in FOLDER.glob("*.json")))
        return 0
    name, *commands = arguments
    FOLDER.mkdir(parents=True, exist_ok=True)
    counted = (FOLDER / f"{name}.tests").absolute()
    counted.write_text("")
    _adopt_orphans()
    began = time.monotonic()
    status = subprocess.run(["/bin/sh", "-c", " ".join(commands)], env=os.environ | {_LANE: str(counted)}, check=False)
    seconds = time.monotonic() - began
    _wait_for_orphans()
    spent = os.times()
    tests = sum(map(int, counted.read_text().split()))
    cost = Cost(name, tests, seconds, spent.children_user + spent.children_system)
    (FOLDER / f"{name}.json").write_text(json.dumps(asdict(cost)))
    return status.returncode


def _adopt_orphans() -> None:
    """JVMs whose parent ends first, as Spark's, would be nobody's otherwise."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _wait_for_orphans() -> None:
    ends = time.monotonic() + _ORPHANS_END_S
    while time.monotonic() < ends:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
