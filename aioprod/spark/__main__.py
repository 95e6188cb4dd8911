"""`python -m aioprod.spark load|audit|plan`: the jobs from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from aioprod.errors import AioprodError

__all__ = ["main"]


class _Job(NamedTuple):
    module: str
    does: str


_JOBS: Final = {
    "load": _Job("aioprod.spark.loading.command", "write Parquet, CSV, JSON or a table into a topic, exactly once"),
    "audit": _Job("aioprod.spark.auditing.command", "compare a topic with what a load's manifest promises"),
    "plan": _Job("aioprod.spark.planning.command", "find out from the data how many partitions a topic needs"),
}

_USAGE: Final = "usage: python -m aioprod.spark {" + ",".join(_JOBS) + "} ..."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job; returns 0 when it went well, 1 when it failed or found something, 2 when it was asked wrongly.

    Only the job that is asked for is imported. An error of aioprod is one or two lines on stderr.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        (sys.stdout if given else sys.stderr).write(_help())
        return 0 if given else 2
    job = _JOBS.get(given[0])
    if job is None:
        _say(f"{_USAGE}\naioprod.spark: there is no job {given[0]!r}.")
        return 2
    run: Callable[[list[str]], int] = import_module(job.module).main
    try:
        return run(given[1:])
    except AioprodError as error:
        _say(f"aioprod.spark {given[0]}: {error.message}", *filter(None, [error.hint]))
        return 1
    except KeyboardInterrupt:
        _say(f"aioprod.spark {given[0]}: interrupted")
        return 130


def _say(*lines: str) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def _help() -> str:
    jobs = "\n".join(f"  {name:<7}{job.does}" for name, job in _JOBS.items())
    return f"{_USAGE}\n\n{__doc__.partition(': ')[2].strip().capitalize()}\n\n{jobs}\n\nEach has its own --help.\n"


if __name__ == "__main__":
    sys.exit(main())
