"""A word counter as a process of this machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["CounterProcess"]

ROOT: Final = Path(__file__).parents[2]


class CounterProcess:
    """A member of its own process; runs as long as the `with` block."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self._command = [sys.executable, "-m", "examples.word_count.counter", bootstrap_servers, name]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._log.close()

    def start(self) -> None:
        """Start the process; does not wait until it counts."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, cwd=ROOT
        )

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Kill it, and start it again under its name."""
        self.kill()
        self.start()

    def check(self) -> None:
        """Raise RuntimeError if it has ended by itself, with the end of what it has logged."""
        if self._process.poll() is not None:
            self._log.seek(0)
            raise RuntimeError(f"A member has ended: {self._log.read()[-2000:].decode(errors='replace')}")
