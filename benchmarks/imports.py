"""Measure the import of aioprod, aiokafka and confluent-kafka: `make bench-import`.

Each import runs in a new interpreter, with cached bytecode, and the clients take turns. Times are those of the import
alone, without the start of the interpreter; memory is the resident memory after it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median
from typing import Final, NamedTuple

import aioprod
from aioprod.console.tables import Table, text_of

__all__ = ["Cost", "main", "table"]

ROUNDS: Final = 5
PEER: Final = "aiokafka"
"""The client whose time is 1 in the last column."""

IMPORTS: Final = {
    "aioprod": ("aioprod; aioprod.Producer", "0"),
    "aioprod, interpreted": ("aioprod; aioprod.Producer", "1"),
    "aioprod.spark.datasource": ("aioprod.spark.datasource", "0"),
    PEER: ("aiokafka; aiokafka.AIOKafkaProducer", "0"),
    "confluent-kafka": ("confluent_kafka; confluent_kafka.Producer", "0"),
    "asyncio": ("asyncio", "0"),
}
"""The module to import, and AIOPROD_NO_EXT."""

BEFORE: Final = {"aioprod.spark.datasource": "pyspark.sql.datasource, pyspark.sql.types"}
"""Modules that are always loaded and not counted."""

CODE: Final = """
import resource, sys, time
{before}
modules, cpu, wall = len(sys.modules), time.process_time(), time.perf_counter()
import {what}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
with open("/proc/self/statm") as numbers:
    resident = int(numbers.read().split()[1]) * resource.getpagesize()
print(wall * 1e3, cpu * 1e3, resident / 1e6, len(sys.modules) - modules)
"""


class Cost(NamedTuple):
    """The cost of one import: milliseconds, resident megabytes, modules."""

    wall_ms: float
    cpu_ms: float
    resident_mb: float
    modules: float


def cost_of(name: str) -> Cost:
    """Import the client once."""
    what, no_ext = IMPORTS[name]
    before = f"import {BEFORE[name]}" if name in BEFORE else ""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", CODE.format(before=before, what=what)]
    run = subprocess.run(command, env=environment | {"AIOPROD_NO_EXT": no_ext}, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"import {what} failed: {run.stderr.strip().splitlines()[-1]}")
    return Cost(*map(float, run.stdout.split()))


def table(costs: dict[str, list[Cost]]) -> Table:
    """Return the medians, and the ratio of the times to the peer's."""
    medians = {name: Cost(*map(median, zip(*found, strict=True))) for name, found in costs.items()}
    peer = medians[PEER]
    return Table(
        "Imports",
        f"medians of {len(costs[PEER])} runs in turn, Python {sys.version.split()[0]}",
        ("import", "wall ms", "CPU ms", "resident MB", "modules", "wall x", "CPU x"),
        [
            (
                name,
                round(cost.wall_ms, 1),
                round(cost.cpu_ms, 1),
                round(cost.resident_mb, 1),
                int(cost.modules),
                round(cost.wall_ms / peer.wall_ms, 2),
                round(cost.cpu_ms / peer.cpu_ms, 2),
            )
            for name, cost in medians.items()
        ],
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.imports", description="What it costs to import a client."
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"imports of each; default: {ROUNDS}")
    rounds = parser.parse_args().rounds
    if not aioprod.COMPILED:
        print("No compiled modules here: both rows of aioprod are interpreted.")
    for name in IMPORTS:
        cost_of(name)  # writes the bytecode
    costs: dict[str, list[Cost]] = {name: [] for name in IMPORTS}
    for _ in range(rounds):
        for name, found in costs.items():
            found.append(cost_of(name))
    print(text_of([table(costs)]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
