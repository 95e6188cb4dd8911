"""aioprod's producer for threads, called from 32 of them; its loop is asyncio's."""

from __future__ import annotations

from itertools import islice

import aioprod
from aioprod.errors import BufferFullError
from aioprod.sync import Producer
from benchmarks import data
from benchmarks.contenders.aioprod import settings
from benchmarks.contenders.build import check_build
from benchmarks.job import Job, Measurement
from benchmarks.measure import Meter, Tally
from benchmarks.threads import in_threads

__all__ = ["measure"]


async def measure(job: Job, meter: Meter) -> Measurement:
    """Run the job. It does not use the running loop, and blocks it until it is done."""
    check_build(job)
    with Producer(job.bootstrap_servers, **settings(job), **job.log_in) as producer:
        _send_nowait(producer, job, job.warm_up, Tally())
        tally = Tally()
        meter.start()
        _send_nowait(producer, job, job.records, tally)
        used = settings(job) | {"build": job.build, "enable_idempotence": producer.config.enable_idempotence}
        return meter.measurement(job, tally, None, used, {"aioprod": aioprod.__version__})


def _send_nowait(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    topic = job.topics[0]
    counted = tally.on_delivery

    def work(share: int) -> None:
        for value in islice(data.values(job), share):
            while True:
                try:
                    producer.send_nowait(topic, value, on_delivery=counted)
                    break
                except BufferFullError:
                    producer.drain()

    in_threads(work, count)
    producer.flush()
