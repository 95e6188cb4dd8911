"""One contender process: `python -m benchmarks.contender JOB` runs one measurement and prints it as one JSON line."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable

from benchmarks.job import Job
from benchmarks.measure import Meter

__all__ = ["main"]

MODULES = {
    "aioprod": "benchmarks.contenders.aioprod",
    "aioprod_sync": "benchmarks.contenders.aioprod_sync",
    "aiokafka": "benchmarks.contenders.aiokafka",
    "compat": "benchmarks.contenders.compat",
    "confluent": "benchmarks.contenders.confluent",
    "confluent_aio": "benchmarks.contenders.confluent_aio",
    "reading": "benchmarks.contenders.reading",
    "programs": "benchmarks.contenders.programs",
    "imports": "benchmarks.contenders.imports",
}
"""The contenders' modules; each process imports only its own."""


def _loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if loop == "asyncio":
        return None
    import uvloop

    return uvloop.new_event_loop


def main() -> None:
    """Run the job that is given on the command line."""
    job = Job.from_json(sys.argv[1])
    client = importlib.import_module(MODULES[job.client])
    meter = Meter()
    with asyncio.Runner(loop_factory=_loop_factory(job.loop)) as runner:
        measurement = runner.run(client.measure(job, meter))
    print(measurement.to_json(), flush=True)


if __name__ == "__main__":
    main()
