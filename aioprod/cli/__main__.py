"""`aioprod`, the same as `python -m aioprod`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from aioprod import __version__
from aioprod.console.frame import Command, run

__all__ = ["main"]

_COMMANDS: Final = {
    "produce": Command("aioprod.cli.produce", "send lines, JSON or CSV from files or a pipe"),
    "read": Command("aioprod.cli.read", "print the records of a topic"),
    "topics": Command("aioprod.cli.topics", "list, describe, create, delete and grow topics"),
    "groups": Command("aioprod.cli.groups", "list groups, describe their members, show their lag"),
    "configs": Command("aioprod.cli.configs", "describe and change the settings of topics and brokers"),
    "offsets": Command("aioprod.cli.offsets", "show where partitions begin, end, or were at a time"),
    "doctor": Command("aioprod.cli.doctor", "find out why a client can't work with a cluster"),
    "perf": Command("aioprod.cli.perf", "measure how many records a second a topic takes, and how long each takes"),
    "assign": Command("aioprod.cli.assign", "show which member of a group reads which partitions, and what would move"),
    "partition": Command("aioprod.cli.partition", "show which partition a key goes to"),
}
"""In the order of the help: with a broker, and then without one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0 when it went well, 1 when it failed, 2 for invalid arguments."""
    given = sys.argv[1:] if arguments is None else arguments
    about = "Kafka from a shell: send, read, look at and measure; assign and partition need no broker."
    return run("aioprod", about, _COMMANDS, given, version=__version__)


if __name__ == "__main__":
    sys.exit(main())
