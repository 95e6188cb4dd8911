"""Cleans up when the process that started brokers is gone, however it ended: nothing of a killed test run is left.

`Reaper` starts this very file as a program of its own and tells it, as JSON lines on its standard input, what is to be
cleaned: each line replaces the one before it. When the pipe ends, because the parent closed it or died, it acts on
the last line. It imports nothing of aioprod, so that it starts fast.
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
        # A session of its own: Ctrl-C in the terminal is for the tests, which then close the cluster in order.
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
        """From now on: kill `pids`, then run `commands`, then remove `folders`."""
        line = {"pids": [*pids], "commands": [*commands], "folders": [*folders]}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the watchdog, which does at once what it was last told."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def clean_up(lines: Iterable[str]) -> None:
    """Read `lines` to their end, then do what the last of them asks for."""
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
