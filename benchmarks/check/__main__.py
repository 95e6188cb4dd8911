"""The command line: `python -m benchmarks.check --help`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

from benchmarks import brokers
from benchmarks.check.callgrind import CheckError, build_switch, count
from benchmarks.check.counts import ROUNDS, ROWS, THRESHOLD, table, verdicts
from benchmarks.check.trees import Trees

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "bench-check"
READ = (100, "none", 20_000)
"""What the rows for reading read: bytes of a value, compression, and the least number of records."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.check", description="Counts the instructions of the hot calls, now and before."
    )
    parser.add_argument("--base", default="", help="a revision; default: HEAD where files are changed, else its parent")
    parser.add_argument("--rows", default="", help=f"comma-separated, of {', '.join(ROWS)}; default: all")
    parser.add_argument("--threshold", type=float, default=THRESHOLD, help="percent; default: %(default)g")
    parser.add_argument(
        "--reason", default="", help="why rows are dearer, which is no failure then; the commit says it, too"
    )
    arguments = parser.parse_args()
    unknown = [row for row in arguments.rows.split(",") if row and row not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}: it must be one of {', '.join(ROWS)}")
    return arguments


async def _counts(folders: dict[str, Path], rows: list[str], switch: Path) -> dict[str, dict[str, int]]:
    """Count the instructions of each row in each folder, by its label; one process per core runs at once."""
    places = asyncio.Semaphore(os.cpu_count() or 1)
    found: dict[str, dict[str, int]] = {label: {} for label in folders}

    async def measure(label: str, row: str, bootstrap_servers: str, topic: str) -> None:
        async with places:
            start = time.monotonic()
            program = [row, str(ROUNDS), str(ROWS[row].records), bootstrap_servers, topic]
            found[label][row] = await count(folders[label], program, switch, FOLDER / "profiles" / f"{label}-{row}")
            print(f"  {label} {row}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

    async with brokers.start("mock") as broker, brokers.start("fake") as readable, asyncio.TaskGroup() as group:
        read = await asyncio.to_thread(readable.filled, *READ)
        topics = {(label, row): f"{label}-{row}" for row in rows for label in folders if not ROWS[row].reads}
        await asyncio.to_thread(broker.create, list(topics.values()), broker.partitions)
        for row in rows:
            for label in folders:
                if ROWS[row].reads:
                    group.create_task(measure(label, row, readable.bootstrap_servers, read.name))
                else:
                    group.create_task(measure(label, row, broker.bootstrap_servers, topics[label, row]))
    return found


def check(arguments: argparse.Namespace) -> int:
    """Build, count and compare; return 1 if a row exceeds its budget, or takes more instructions without a reason."""
    switch = build_switch(FOLDER)
    trees = Trees(ROOT, FOLDER)
    base = arguments.base or ("HEAD" if trees.is_changed() else "HEAD^")
    folders = {}
    for label, tree in (("base", trees.of_commit(base)), ("now", trees.of_working_tree())):
        start = time.monotonic()
        folders[label] = trees.built(tree)
        print(f"  {label} built: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    rows = [row for row in ROWS if row in arguments.rows.split(",") or not arguments.rows]
    try:
        counts = asyncio.run(_counts(folders, rows, switch))
    except* CheckError as errors:
        raise errors.exceptions[0] from None
    found = verdicts(counts["base"], counts["now"], arguments.threshold)
    print(f"The working tree beside {base}:\n{table(found)}")
    if any(verdict.over_budget for verdict in found):
        print("A row is over its budget: make it cheaper.")
        return 1
    if any(verdict.dearer for verdict in found):
        if not arguments.reason:
            print("A row is dearer: make it cheaper, or say why in the commit and to --reason.")
            return 1
        print(f"The reason: {arguments.reason}")
    return 0


def main() -> int:
    """Run the check that the command line selects."""
    try:
        return check(_arguments())
    except CheckError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
