"""`Workers`: processes that run seeds. A seed that exceeds its bounds fails, and the others are run."""

from __future__ import annotations

import json
import math
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO, Any, Final

__all__ = ["Workers", "bound_process", "bound_seed"]

SEED_CPU_S: Final = 300
"""A seed that takes more CPU time than this ends its process: an ordinary one takes a tenth of a second."""
MEMORY_MAX: Final = 2 << 30
"""Bytes of addresses for a process: more than ten times of what it needs."""


def bound_process() -> None:
    """Let allocations beyond `MEMORY_MAX` raise MemoryError, and let a process that ends leave no image of itself."""
    for limit, bound in ((resource.RLIMIT_AS, MEMORY_MAX), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (bound, resource.getrlimit(limit)[1]))


def bound_seed() -> None:
    """Let SIGXCPU end this process when what begins now takes longer than `SEED_CPU_S`, also in compiled code."""
    used_s = math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used_s + SEED_CPU_S, resource.getrlimit(resource.RLIMIT_CPU)[1]))


class _Worker:
    """A process that runs `seeds` and prints a line of JSON for each."""

    def __init__(self, command: list[str], seeds: range, environment: dict[str, str]) -> None:
        self.seeds = seeds
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    @property
    def output(self) -> IO[str]:
        """What the process prints."""
        assert self.process.stdout is not None
        return self.process.stdout


class Workers(AbstractContextManager["Workers"]):
    """Runs `seeds` in so many processes; `command` returns the command of a process for its share of them."""

    def __init__(self, seeds: range, processes: int, command: Callable[[range], list[str]]) -> None:
        self._command = command
        self._selector = selectors.DefaultSelector()
        for index in range(processes):
            self._start(seeds[index::processes])

    def _start(self, seeds: range) -> None:
        if seeds:
            worker = _Worker(self._command(seeds), seeds, os.environ | {"PYTHONHASHSEED": "0"})
            self._selector.register(worker.output, selectors.EVENT_READ, worker)

    def results(self) -> Iterator[dict[str, Any]]:
        """The results of the seeds as they arrive. A seed that ends its process has failed; the next ones are run in
        another process, unless it was an error of Python's that ended it."""
        while self._selector.get_map():
            for key, _ in self._selector.select():
                worker: _Worker = key.data
                if line := worker.output.readline():
                    worker.seeds = worker.seeds[1:]
                    yield json.loads(line)
                    continue
                self._selector.unregister(worker.output)
                worker.process.communicate()
                status = worker.process.returncode
                if status < 0 and worker.seeds:
                    yield _ended_by(worker.seeds[0], signal.Signals(-status).name)
                    self._start(worker.seeds[1:])

    def __exit__(self, *error: object) -> None:
        for key in list(self._selector.get_map().values()):
            key.data.process.kill()
            key.data.process.communicate()
        self._selector.close()


def _ended_by(seed: int, name: str) -> dict[str, Any]:
    cause = f"it took more than {SEED_CPU_S} s of CPU time" if name == "SIGXCPU" else f"{name} ended its process"
    return {
        "seed": seed,
        "problems": [f"The run has no end: {cause}."],
        "injected": {},
        "outcomes": {},
        "simulated_s": 0.0,
    }
