"""Programs that tests start: as a shell does, so that Ctrl-C reaches them, and ended with the test in any case."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interruptible", "program"]


def interruptible() -> None:
    """Let SIGINT end the process: what runs in the background of a shell inherits that it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m aioprod` with these arguments, and pipes; killed at the end of the block if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "aioprod", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=interruptible,
    ) as running:
        try:
            yield running
        finally:
            running.kill()
