"""aiokafka's producer."""

from __future__ import annotations

import aiokafka
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.contenders.aiokafka_calls import measured
from benchmarks.job import Job, Measurement
from benchmarks.measure import Meter

__all__ = ["measure"]


async def measure(job: Job, meter: Meter) -> Measurement:
    """Run the job; raises AssertionError if aiokafka's compiled modules are missing."""
    assert "_crecords" in DefaultRecordBatchBuilder.__module__, "aiokafka runs without its compiled parts."
    used = {"loop": job.loop, "enable_idempotence": False}
    return await measured(aiokafka.AIOKafkaProducer, job, meter, used, {"aiokafka": aiokafka.__version__})
