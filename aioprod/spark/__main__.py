"""`python -m aioprod.spark load|audit|plan`: the jobs from the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from aioprod import __version__
from aioprod.console.frame import Command, run

__all__ = ["main"]

_JOBS: Final = {
    "load": Command("aioprod.spark.loading.command", "write Parquet, CSV, JSON or a table into a topic, exactly once"),
    "audit": Command("aioprod.spark.auditing.command", "compare a topic with what a load's manifest promises"),
    "plan": Command("aioprod.spark.planning.command", "find out from the data how many partitions a topic needs"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job; returns 0 when it went well, 1 when it failed or found something, 2 for wrong arguments."""
    given = sys.argv[1:] if arguments is None else arguments
    return run("python -m aioprod.spark", "The jobs from the command line.", _JOBS, given, version=__version__)


if __name__ == "__main__":
    sys.exit(main())
