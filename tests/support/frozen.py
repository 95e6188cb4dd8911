"""`python -m tests.support.frozen [arguments of pytest]`: run tests while their processes are stopped at random.

The test process is stopped for up to two seconds at a time, about 40 % of the time in all, at times with some of the
processes that it has started: brokers, workers, Spark. A test that passes only on a quick machine fails here.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["Processes", "main"]

STOPPED_MAX_S: Final = 2.0
RUNNING_MEAN_S: Final = 0.7
STOPPED: Final = "T"


class Processes:
    """A process and those that it has started, directly or not, as `/proc` lists them."""

    def __init__(self, root: int) -> None:
        self.root = root

    def descendants(self) -> list[int]:
        """The processes below the root, but those that are stopped already: a test means them to be."""
        parents, stopped = self._table()
        below = [self.root]
        for process in below:
            below += [child for child, parent in parents.items() if parent == process]
        return [process for process in below[1:] if process not in stopped]

    @contextmanager
    def stopped(self, source: random.Random) -> Iterator[None]:
        """Stop the root, and every other time about half of its descendants, for the length of the block.

        The root is stopped first and resumed last. So a process that is stopped here was not stopped by a test, too,
        and resuming it undoes nothing that a test did.
        """
        os.kill(self.root, signal.SIGSTOP)
        others = [one for one in self.descendants() if source.random() < 0.5] if source.random() < 0.5 else []
        try:
            for process in others:
                _signal(process, signal.SIGSTOP)
            yield
        finally:
            for process in [*others, self.root]:
                _signal(process, signal.SIGCONT)

    @staticmethod
    def _table() -> tuple[dict[int, int], set[int]]:
        """The parent of each process, and the processes that are stopped."""
        parents: dict[int, int] = {}
        stopped: set[int] = set()
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                # The name, in parentheses, may have any characters.
                state, parent = status.read_text().rpartition(")")[2].split()[:2]
                parents[int(status.parent.name)] = int(parent)
                if state == STOPPED:
                    stopped.add(int(status.parent.name))
        return parents, stopped


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments under random stops, and return its exit status."""
    seed = int(os.environ.get("SEED", random.randrange(1_000_000)))
    source = random.Random(seed)
    print(f"Stopping the tests' processes at random, SEED={seed}.", flush=True)
    with subprocess.Popen([sys.executable, "-m", "pytest", *arguments]) as tests:
        processes = Processes(tests.pid)
        while tests.poll() is None:
            time.sleep(source.expovariate(1 / RUNNING_MEAN_S))
            if tests.poll() is None:
                with processes.stopped(source):
                    # Many short stops and a few long ones.
                    time.sleep(STOPPED_MAX_S * source.random() ** 3)
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
