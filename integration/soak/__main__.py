"""The command line: `python -m integration.soak --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from aioprod.console.terminal import show
from integration.soak import report
from integration.soak.run import FAULTS, Options, run

__all__ = ["main"]

FOLDER: Final = Path("build/soak")


def main() -> int:
    """Run, write the report and its picture, print a table; the exit status is 1 when the verdict is no."""
    parser = argparse.ArgumentParser(
        prog="python -m integration.soak",
        description="Load in every style on three brokers under faults, for a long time.",
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="default: 60")
    parser.add_argument("--rate", type=float, default=3000.0, help="records a second, of all styles; default: 3000")
    parser.add_argument("--faults", default=",".join(FAULTS), help="comma-separated, in turn; default: all")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"for report.json and soak.png; default: {FOLDER}")
    given = parser.parse_args()
    faults = tuple(given.faults.split(",")) if given.faults else ()
    if unknown := set(faults) - set(FAULTS):
        parser.error(f"there are no faults {', '.join(sorted(unknown))}; these are: {', '.join(FAULTS)}")
    options = Options(minutes=given.minutes, rate=given.rate, faults=faults)
    found = asyncio.run(run(options, lambda line: print(f"  {line}", file=sys.stderr, flush=True)))
    report.write(found, given.folder)
    show(report.parts(found), sys.stdout)
    return int(not all(line.is_fine for line in report.verdict(found)))


if __name__ == "__main__":
    sys.exit(main())
