"""Run the rows: each measurement has a process of its own, and the contenders of a row take turns."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import brokers
from benchmarks.job import Job, Measurement
from benchmarks.processes import ProcessFailedError, output_of
from benchmarks.rows import ROWS, Contender, Row
from benchmarks.verdicts import medians
from tests.support.environment import environment

__all__ = ["Options", "run"]

OTHERS_RUNS = 3
"""The maximum number of runs of contenders on which no target depends."""
WARM_UP = Contender("warm-up", "confluent", "produce", 1_000_000)
"""The warm-up of the broker, whose JVM has not compiled its code before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a run. Without `brokers`, each row runs on its own. `only` selects contenders whose label contains
    it; `wrap` is a prefix of each command.
    """

    rows: tuple[str, ...]
    brokers: tuple[str, ...]
    runs: int
    records: int | None
    scale: float
    only: str
    wrap: str


async def run(options: Options) -> dict[str, Any]:
    """Measure everything; return the content of a results file, with an entry per broker, row and contender."""
    place = environment()
    titles: dict[str, str] = {}
    entries: list[dict[str, Any]] = []
    for name in options.brokers or brokers.BROKERS:
        rows = [row for row in map(ROWS.__getitem__, options.rows) if row.is_on(name, named=bool(options.brokers))]
        if not rows:
            continue
        async with brokers.start(name) as broker:
            titles[name] = broker.title
            print(f"\n{broker.title} at {broker.bootstrap_servers}", flush=True)
            if broker.warms_up:
                await _measure(WARM_UP.job(broker, options.records, options.scale), ())
            for row in rows:
                entries += await _run_row(broker, row, options)
    return {"environment": place, "runs": options.runs, "brokers": titles, "entries": entries}


async def _run_row(broker: brokers.Broker, row: Row, options: Options) -> list[dict[str, Any]]:
    contenders = [contender for contender in row.contenders if options.only in contender.label]
    jobs = [await asyncio.to_thread(contender.job, broker, options.records, options.scale) for contender in contenders]
    entries: list[dict[str, Any]] = [
        {"broker": broker.name, "row": row.name, "contender": contender.label, "runs": []} for contender in contenders
    ]
    print(f"\n{row.name}: {row.title}", flush=True)
    begun = time.monotonic()
    for entry, contender in zip(entries, contenders, strict=True):
        if contender.needs and shutil.which(contender.needs) is None:
            entry["missing"] = f"{contender.needs} is not installed"
    for number in range(options.runs):
        for index in _turns(len(jobs), number):
            if entries[index].keys() & {"failure", "missing"} or (
                number >= OTHERS_RUNS and not row.is_judged(contenders[index])
            ):
                continue
            try:
                _add(entries[index], await _measure(jobs[index], shlex.split(options.wrap)))
            except ProcessFailedError as error:
                entries[index]["failure"] = str(error)
    for entry in entries:
        _show(entry, row.unit)
    print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    return entries


def _turns(count: int, number: int) -> list[int]:
    """Return the order of the contenders in one run; each run begins with another one."""
    return [(first + number) % count for first in range(count)]


async def _measure(job: Job, wrap: Sequence[str]) -> Measurement:
    """Run one process and return its measurement."""
    environment = dict(os.environ, AIOPROD_NO_EXT="1" if job.build == "interpreted" else "")
    environment.pop("AIOKAFKA_NO_EXTENSIONS", None)
    command = (*wrap, sys.executable, "-m", "benchmarks.contender", job.to_json())
    out, errors = await output_of(*command, environment=environment)
    if not out:
        raise ProcessFailedError("It printed no measurement.")
    if wrap:
        sys.stderr.write(errors)
    return Measurement.from_json(out.splitlines()[-1])


def _add(entry: dict[str, Any], measurement: Measurement) -> None:
    """Add a run; values that all runs share are kept once."""
    numbers = asdict(measurement)
    entry["settings"] = numbers.pop("settings")
    entry["versions"] = numbers.pop("versions")
    entry["runs"].append(numbers)


def _show(entry: dict[str, Any], unit: str) -> None:
    if "missing" in entry:
        print(f"  {entry['contender']:<52} not measured: {entry['missing']}", flush=True)
        return
    if "failure" in entry:
        print(f"  {entry['contender']:<52} failed: {entry['failure'].splitlines()[-1]}", flush=True)
        return
    found = medians(entry["runs"])
    shown = [f"{found['cpu_us']:8.3f} us CPU per {unit}", f"{found['records_per_s']:>10,.0f}/s"]
    latencies = [f"{name[:3]} {found[name] / 1000:.2f}" for name in ("p50_us", "p99_us") if name in found]
    if latencies:
        shown.append(f"{' '.join(latencies)} ms")
    if "gap_ms" in found:
        shown.append(f"gap {found['gap_ms']:.1f} ms")
    grown = f" (+{found['growth_mb']:.0f})" if "growth_mb" in found else ""
    shown.append(f"peak {found['peak_mb']:.0f} MB{grown}")
    print(f"  {entry['contender']:<52}{'  '.join(shown)}", flush=True)
