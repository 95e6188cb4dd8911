"""Run the readers in turns, each in a process of its own, and print a table: `python -m benchmarks.readers --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from statistics import median

from benchmarks.readers.broker import PARTITIONS, TOPICS, running, started
from benchmarks.readers.contender import CONTENDERS

__all__ = ["main"]


def main() -> None:
    """Run what the command line selects."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.readers", description="CPU time of reading, beside aiokafka and confluent-kafka."
    )
    parser.add_argument("--rounds", type=int, default=5, help="of each contender; default: 5")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of records")
    parser.add_argument("--only", default="", metavar="WORD", help="contenders whose name contains it")
    arguments = parser.parse_args()
    names = [name for name in CONTENDERS if arguments.only in name]
    found = asyncio.run(_measured(names, arguments.rounds, arguments.scale))
    print("\n".join(_table(names, found)))


async def _measured(names: list[str], rounds: int, scale: float) -> dict[tuple[str, str], list[float]]:
    """The CPU times in us per record, by contender and topic."""
    found: dict[tuple[str, str], list[float]] = {}
    async with running(scale) as (address, counts):
        for number in range(rounds):
            for topic, records in counts.items():
                for index in range(len(names)):
                    name = names[(index + number) % len(names)]
                    line = await _output(
                        "contender", name, address, topic, str(records), str(PARTITIONS)
                    )  # fmt: skip
                    found.setdefault((name, topic), []).append(float(line))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


async def _output(module: str, *arguments: str) -> str:
    process = await started(module, *arguments)
    out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with exit status {process.returncode}.")
    return out.decode()


def _table(names: list[str], found: dict[tuple[str, str], list[float]]) -> list[str]:
    """The least and the median CPU seconds per million records, which are us per record."""
    topics = [f"{topic.value_size} B, {topic.codec.name.lower()}" for topic in TOPICS]
    rows = [f"| CPU s per million records | {' | '.join(topics)} |", f"|---|{'---|' * len(topics)}"]
    for name in names:
        times = [found[name, topic.name] for topic in TOPICS]
        rows.append(f"| {name} | {' | '.join(f'{min(one):.2f} ({median(one):.2f})' for one in times)} |")
    return rows


if __name__ == "__main__":
    main()
