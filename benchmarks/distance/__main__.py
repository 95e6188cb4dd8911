"""Producers at any distance: round trips from 0.2 to 500 ms, 1 to 1,000 partitions, ours beside the others.

`python -m benchmarks.distance` prints a table for each cell, and one of all cells. Each run is a process of its own,
and contenders take turns. Records are counted when they are acknowledged, after a warm-up of a second or two round
trips. `--latency` sends one record a millisecond instead. Figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, TypeVar

from aioprod import COMPILED
from aioprod.console.terminal import show
from benchmarks.distance.brokers import BROKERS
from benchmarks.distance.cells import (
    BY_HAND,
    CONTENDERS,
    PARTITIONS,
    ROUND_TRIPS_MS,
    VALUE_SIZES,
    Cell,
    Contender,
    by_hand,
    cells,
)
from benchmarks.distance.java import command
from benchmarks.distance.job import Job, Measurement
from benchmarks.distance.tables import Found, best_of, of_all, of_cell
from benchmarks.processes import ProcessFailedError, output_of

__all__ = ["Options", "contenders_of", "main", "measure"]

RATE: Final = 1000
"""Records a second, where times are measured."""
NumberT = TypeVar("NumberT", int, float)


@dataclass(frozen=True, slots=True)
class Options:
    """How each cell is measured: `rate` is 0 for as many records as possible."""

    seconds: float
    rounds: int
    rate: int


async def run(job: Job) -> Measurement:
    """Run one process; raises ProcessFailedError."""
    python = [sys.executable, "-m", "benchmarks.distance.contender", job.to_json()]
    out, _ = await output_of(*(command(job) if job.client == "java" else python))
    if not out:
        raise ProcessFailedError("It printed no measurement.")
    return Measurement.from_json(out.splitlines()[-1])


async def measure(servers: str, cell: Cell, contenders: Sequence[Contender], options: Options) -> list[Found]:
    """Run all contenders of a cell in turns; one that fails has no more turns."""
    found = [Found(contender) for contender in contenders]
    for number in range(options.rounds):
        for one in found if number % 2 == 0 else reversed(found):
            if one.failure:
                continue
            job = Job(
                client=one.contender.client,
                settings=one.contender.settings,
                bootstrap_servers=servers,
                topic=cell.topic,
                keys=cell.keys,
                value_size=cell.value_size,
                warm_up_s=cell.warm_up_s,
                seconds=options.seconds,
                rate=options.rate,
            )
            try:
                one.runs.append(await run(job))
            except ProcessFailedError as error:
                one.failure = str(error).splitlines()[-1]
            line = {"cell": cell.title, "contender": one.contender.name, "settings": one.contender.settings}
            line |= {"failure": one.failure} if one.failure else asdict(one.runs[-1])
            print(json.dumps(line), file=sys.stderr, flush=True)
    return best_of(found)


async def run_all(broker: str, some: Sequence[Cell], contenders: Sequence[Contender], options: Options) -> None:
    """Measure each cell, and print its table; then that of all cells."""
    build = "compiled" if COMPILED else "interpreted"
    is_timed = options.rate > 0
    print(f"On {broker}, aioprod {build}, {options.seconds:g} s, medians of {options.rounds}\n")
    found: dict[Cell, list[Found]] = {}
    async with BROKERS[broker]() as places:
        for cell in some:
            async with places(cell) as servers:
                found[cell] = await measure(servers, cell, contenders, options)
            show([of_cell(cell, found[cell], is_timed=is_timed), ""], sys.stdout)
            sys.stdout.flush()
    show([of_all("All", found, is_timed=is_timed)], sys.stdout)


def contenders_of(words: Sequence[str], settings: Sequence[dict[str, Any]]) -> list[Contender]:
    """Those whose names contain one of the words, or all; `settings` are what is tried by hand, if not the usual."""
    known = [CONTENDERS[0], *by_hand(settings or BY_HAND), *CONTENDERS[1:]]
    return [one for one in known if any(word in one.name for word in words or [""])]


def _numbers(kind: Callable[[str], NumberT], text: str) -> list[NumberT]:
    return [kind(word) for word in text.split(",")]


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distance", description=__doc__)
    parser.add_argument("--broker", choices=BROKERS, default="sink")
    parser.add_argument("--round-trips", type=partial(_numbers, float), default=ROUND_TRIPS_MS, metavar="MS,MS")
    parser.add_argument("--partitions", type=partial(_numbers, int), default=PARTITIONS, metavar="N,N")
    parser.add_argument("--sizes", type=partial(_numbers, int), default=VALUE_SIZES, metavar="BYTES,BYTES")
    parser.add_argument("--seconds", type=float, default=10.0, help="that are measured, after the warm-up")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="contenders whose names contain it")
    parser.add_argument("--by-hand", nargs="+", type=json.loads, default=[], metavar="JSON", help="settings of aioprod")
    parser.add_argument("--latency", action="store_true", help="of 1,000 records a second that are sent one by one")
    given = parser.parse_args()
    options = Options(given.seconds, given.rounds, RATE if given.latency else 0)
    some = cells(given.round_trips, given.partitions, given.sizes)
    asyncio.run(run_all(given.broker, some, contenders_of(given.only, given.by_hand), options))


if __name__ == "__main__":
    main()
