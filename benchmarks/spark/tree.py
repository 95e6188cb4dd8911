"""The CPU time of all child processes, including ended ones, with some processes excluded."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Collection
from typing import Self

__all__ = ["ProcessTree", "children"]

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.05


def _processes() -> dict[int, tuple[int, float, str]]:
    """Return parent, user and system seconds, and kind of each process of this machine."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                text = file.read()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        kind = "jvm" if "(java)" in text else "python"
        found[int(name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) * _TICK_S, kind
    return found


def children() -> set[int]:
    """Return the running processes that this one has started."""
    return {pid for pid, (parent, _, _) in _processes().items() if parent == os.getpid()}


class ProcessTree(threading.Thread):
    """Samples the processes inside the `with` block. Spark kills idle workers without waiting for them, so no parent
    accounts for their time: the last sample of each process is kept."""

    def __init__(self, without: Collection[int]) -> None:
        super().__init__(daemon=True)
        self._without = set(without)
        self._seen: dict[int, tuple[float, str]] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self.seconds()

    def seconds(self) -> dict[str, float]:
        """Return the CPU seconds so far, by kind: jvm, python."""
        with self._lock:
            processes = _processes()
            below: dict[int, list[int]] = defaultdict(list)
            for pid, (parent, _, _) in processes.items():
                below[parent].append(pid)
            stack = [pid for pid in below[os.getpid()] if pid not in self._without]
            while stack:
                pid = stack.pop()
                _, used, kind = processes[pid]
                self._seen[pid] = used, kind
                stack += below[pid]
            total = {"jvm": 0.0, "python": 0.0}
            for used, kind in self._seen.values():
                total[kind] += used
            return total
