"""The command line: `python -m integration.brokers --help`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from aioprod.errors import AioprodError
from integration.brokers import report
from integration.brokers.broker import KFAKE, NotRunError, release_of
from integration.brokers.checks import CHECKS
from integration.brokers.registry import Check, carried_out
from integration.brokers.report import Results
from integration.brokers.starting import running
from tests.support.environment import environment

__all__ = ["main"]

VERSIONS: Final = f"2.1.1 2.4.1 2.5.1 2.8.2 3.0.2 3.6.2 3.9.2 4.0.2 4.4.0 {KFAKE}"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m integration.brokers", description="Tries what aioprod does on brokers of many versions."
    )
    parser.add_argument("--versions", default=VERSIONS, help=f"by spaces; default: {VERSIONS}")
    parser.add_argument("--checks", default="", help="only those whose name has this in it")
    parser.add_argument(
        "--write", action="store_true", help="keep the results, and make the table of docs/brokers.md of all kept"
    )
    given = parser.parse_args(arguments)
    given.versions = given.versions.split()
    given.checks = [check for check in CHECKS if given.checks in check.name]
    if given.write and len(given.checks) < len(CHECKS):
        parser.error("--write keeps the results of all checks, and goes without --checks.")
    try:
        given.versions.sort(key=release_of)
    except ValueError:
        parser.error(f"--versions has one that is neither a version nor {KFAKE}: {' '.join(given.versions)}.")
    return given


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def _results_of(name: str, checks: Sequence[Check]) -> Results:
    """What becomes of the checks on a fresh broker of this name, one after the other."""
    results = Results(name)
    _tell(f"== {name}")
    try:
        async with running(name) as broker:
            for check in checks:
                started = time.monotonic()
                found = results.found[check.name] = await carried_out(check, broker)
                flaw = "" if found.as_expected else f": {found.said}"
                _tell(f"  {name}, {check.name}: {found.outcome} ({time.monotonic() - started:.1f} s){flaw}")
    except NotRunError as error:
        results.not_run = str(error)
        _tell(f"  {name}: not run: {error}")
    except (AioprodError, TimeoutError) as error:
        results.not_started = f"{type(error).__name__}: {error}"
        _tell(f"  {name}: could not be started: {error}")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table; the exit status is 1 when a check did not end as it is expected to on its version."""
    given = _arguments(arguments)
    # No JVM lives long enough here for the second compiler.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    place = environment()
    results = []
    for name in given.versions:
        results.append(asyncio.run(_results_of(name, given.checks)))
        results[-1].environment = place
        if given.write and not results[-1].not_run:
            report.keep(results[-1])
    print("\n".join(report.table(results)))
    print("\n".join(report.evidence(results)))
    if given.write:
        report.write()
    return int(any(one.has_flaws for one in results))


if __name__ == "__main__":
    sys.exit(main())
