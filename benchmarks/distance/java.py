"""Java's producer, of the release that the tests' broker is of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aioprod.testing.kafka.jars import kafka_libs
from benchmarks.distance.job import Job
from benchmarks.java import program_command

__all__ = ["command"]

_SOURCE: Final = Path(__file__).with_name("DistanceSend.java")


def command(job: Job) -> list[str]:
    """Return the command of a JVM that does the job."""
    settings = (f"{name}={value}" for name, value in job.settings.items())
    return program_command(
        _SOURCE,
        kafka_libs(),
        *(job.bootstrap_servers, job.topic, ",".join(job.keys)),
        *(job.value_size, job.warm_up_s, job.seconds, job.rate, *settings),
    )
