"""aioprod's producer with aiokafka's calls."""

from __future__ import annotations

import aioprod
from aioprod.compat.aiokafka import AIOKafkaProducer
from benchmarks.contenders.aiokafka_calls import measured
from benchmarks.contenders.build import check_build
from benchmarks.job import Job, Measurement
from benchmarks.measure import Meter

__all__ = ["measure"]


async def measure(job: Job, meter: Meter) -> Measurement:
    """Run the job; raises AssertionError if this is not the build that the job requires."""
    check_build(job)
    used = {"build": job.build, "loop": job.loop}
    return await measured(AIOKafkaProducer, job, meter, used, {"aioprod": aioprod.__version__})
