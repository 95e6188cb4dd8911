"""Confluent's parallel-consumer, by Maven coordinates, with the dependencies that it declares."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aioprod.testing.kafka.jars import fetched
from benchmarks.java import program_command
from benchmarks.work.job import Job

__all__ = ["ORDERS", "VERSION", "command", "parallel_consumer_jars"]

VERSION: Final = "0.5.3.3"
ORDERS: Final = {"java-key": "KEY", "java-unordered": "UNORDERED"}
"""Contender -> its `ProcessingOrder`."""
_WANTED: Final = (
    ("io.confluent.parallelconsumer", "parallel-consumer-core", VERSION),
    ("org.slf4j", "slf4j-simple", "2.0.13"),
)
_SOURCE: Final = Path(__file__).with_name("ParallelWork.java")


def parallel_consumer_jars() -> Path:
    """Return the folder of its jars, fetched once. Raises KafkaUnavailableError when they can't be fetched."""
    return fetched(f"parallel-consumer-{VERSION}", _WANTED, transitive=True)


def command(job: Job) -> list[str]:
    """Return the command of a JVM that handles the records of a job."""
    return program_command(
        _SOURCE,
        parallel_consumer_jars(),
        *(ORDERS[job.contender], job.bootstrap_servers, job.topic, job.group),
        *(job.records, job.warm_up, job.wait_ms, job.concurrency),
    )
