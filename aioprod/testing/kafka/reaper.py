"""`Reaper`: removes the brokers of a test process, however that process ends.

It runs this very file as a program and writes to its standard input, as JSON lines, what to clean up: each line
replaces the one before. At the end of the input, when the parent has closed the pipe or died, the program does what the
last line says. It imports nothing of aioprod, so that it starts fast.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Reaper", "clean_up"]


class Reaper:
    """A watchdog process; it lives until `close()` or until this process ends."""

    def __init__(self) -> None:
        # In its own session, it gets no SIGINT from the terminal: the tests do, and then close the cluster.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def watch(
        self, *, pids: Iterable[int] = (), commands: Iterable[Sequence[str]] = (), folders: Iterable[str] = ()
    ) -> None:
        """Set what to do at the end: kill `pids`, then run `commands`, then remove `folders`."""
        line = {"pids": [*pids], "commands": [*commands], "folders": [*folders]}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the watchdog, which cleans up first."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def clean_up(lines: Iterable[str]) -> None:
    """Read `lines` to their end, then do what the last of them says."""
    last: dict[str, Any] = {"pids": [], "commands": [], "folders": []}
    for line in lines:
        last = json.loads(line)
    for pid in last["pids"]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for command in last["commands"]:
        subprocess.run(command, check=False)
    for folder in last["folders"]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    clean_up(sys.stdin)
