"""The command line: `python -m integration.group --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from aioprod.testing import KafkaCluster
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from integration.group import report
from integration.group.plan import STRATEGIES
from integration.group.run import PROPERTIES, Options, run

__all__ = ["main"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m integration.group",
        description="Lets members of several kinds join, leave and crash in one group, and checks who read what.",
    )
    parser.add_argument("--events", type=int, default=50, help="per strategy; default: 50")
    parser.add_argument("--strategy", choices=[*STRATEGIES, "all"], default="all")
    parser.add_argument("--kinds", default=None, help="comma-separated; default: all that speak the strategy")
    parser.add_argument("--kafka", default=DEFAULT_VERSION, help=f"version of Kafka; default: {DEFAULT_VERSION}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None, help="keep there what the members said")
    parser.add_argument(
        "--write", action="store_true", help="keep the figures, and make results/results.md anew of all kept"
    )
    return parser.parse_args()


async def _run(given: argparse.Namespace) -> list[dict[str, Any]]:
    results = []
    async with await KafkaCluster.start(1, given.kafka, "local", **PROPERTIES) as cluster:
        for strategy in STRATEGIES.values() if given.strategy == "all" else [STRATEGIES[given.strategy]]:
            if not strategy.works_with(given.kafka):
                continue
            kinds = None if given.kinds is None else given.kinds.split(",")
            options = Options(strategy, given.events, given.seed, kinds)
            done = await run(cluster, options, lambda line: print(f"  {line}", file=sys.stderr, flush=True))
            found = done.figures
            results.append(found)
            if given.folder is not None:
                given.folder.mkdir(parents=True, exist_ok=True)
                (given.folder / f"{strategy.name}-{given.kafka}.txt").write_text("\n".join(map(str, done.reports)))
            if given.write:
                report.keep(found)
    return results


def main() -> int:
    """Run, print the tables; the exit status is 1 when there is a flaw."""
    given = _arguments()
    results = asyncio.run(_run(given))
    print("\n".join(report.tables(results)))
    for found in results:
        print("\n".join(report.evidence(found)))
    if given.write:
        report.write()
    return int(any(found["flaws"] for found in results))


if __name__ == "__main__":
    sys.exit(main())
