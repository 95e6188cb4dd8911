"""One process in Python: `python -m benchmarks.distance.contender JOB` prints its measurement as one line of JSON."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from benchmarks.distance.clients import CLIENTS
from benchmarks.distance.job import Job, Measurement

__all__ = ["measure"]


async def measure(job: Job) -> Measurement:
    """Send for the seconds of the job."""
    return await CLIENTS[job.client](job)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(measure(Job.from_json(sys.argv[1]))).to_json(), flush=True)
