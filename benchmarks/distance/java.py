"""Java's producer, of the release that the tests' broker is of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from aioprod.testing.kafka.jars import compile_java, java, kafka_libs
from benchmarks.distance.job import Job

__all__ = ["command"]

_SOURCE: Final = Path(__file__).with_name("DistanceSend.java")


def command(job: Job) -> list[str]:
    """Return the command of a JVM that does the job. It has as much memory as a small service."""
    jars = kafka_libs()
    classes = compile_java([_SOURCE], jars)
    return [
        *(str(java()), "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
        *("-cp", os.pathsep.join([str(classes), f"{jars}/*"]), "DistanceSend"),
        *(job.bootstrap_servers, job.topic, ",".join(job.keys)),
        *map(str, (job.value_size, job.warm_up_s, job.seconds, job.rate)),
        *(f"{name}={value}" for name, value in job.settings.items()),
    ]
