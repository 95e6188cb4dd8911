"""One process in Python: `python -m benchmarks.work.contender JOB` prints its measurement as one line of JSON."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from benchmarks.work.contenders import CONTENDERS
from benchmarks.work.handler import Handler
from benchmarks.work.job import Job, Measurement

__all__ = ["measure"]


async def measure(job: Job) -> Measurement:
    """Handle all records."""
    return await CONTENDERS[job.contender](job, Handler(job))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(measure(Job.from_json(sys.argv[1]))).to_json(), flush=True)
