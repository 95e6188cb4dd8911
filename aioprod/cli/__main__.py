"""`aioprod`, the same as `python -m aioprod`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from aioprod import __version__
from aioprod.cli.commands import COMMANDS
from aioprod.console.frame import run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0 when it went well, 1 when it failed, 2 for invalid arguments."""
    given = sys.argv[1:] if arguments is None else arguments
    about = "Kafka from a shell: send, read, look at and measure; assign and partition need no broker."
    return run("aioprod", about, COMMANDS, given, version=__version__)


if __name__ == "__main__":
    sys.exit(main())
