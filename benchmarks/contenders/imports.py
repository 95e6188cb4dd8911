"""Imports: the time and memory of one in a new interpreter, with cached bytecode, of each client."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from benchmarks.job import Job, Measurement

__all__ = ["measure"]

_BEFORE: Final = {"aioprod.spark.datasource": "pyspark.sql.datasource, pyspark.sql.types"}
"""Modules that are always loaded and not counted."""

_CODE: Final = """
import resource, sys, time
{before}
modules, cpu, wall = len(sys.modules), time.process_time(), time.perf_counter()
import {what}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
with open("/proc/self/statm") as numbers:
    resident = int(numbers.read().split()[1]) * resource.getpagesize()
print(wall, cpu, resident, len(sys.modules) - modules)
"""


async def measure(job: Job, meter: object) -> Measurement:
    """Import what the job says, twice, as the first time may write the bytecode.

    Times are those of the import alone, without the start of the interpreter: `p50_us` is its wall time.
    Memory is what is resident after it. Raises RuntimeError if it fails.
    """
    _imported(job.imported)
    wall, cpu, resident, modules = _imported(job.imported)
    return Measurement(
        records=1,
        cpu_us=round(cpu * 1e6),
        records_per_s=round(1 / wall),
        peak_mb=round(resident / 2**20, 1),
        p50_us=round(wall * 1e6),
        settings={"build": job.build, "modules": int(modules)},
    )


def _imported(what: str) -> tuple[float, float, float, float]:
    """Return seconds of wall and of CPU time, resident bytes, and the number of modules."""
    before = f"import {_BEFORE[what]}" if what in _BEFORE else ""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _CODE.format(before=before, what=what)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"import {what} failed: {run.stderr.strip().splitlines()[-1]}")
    wall, cpu, resident, modules = map(float, run.stdout.split())
    return wall, cpu, resident, modules
