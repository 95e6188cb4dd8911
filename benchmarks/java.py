"""Java's own benchmark of a producer, from the release that the tests' broker is of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from aioprod.testing.kafka.jars import DEFAULT_VERSION, fetched, java, kafka_libs

__all__ = ["perf_command", "perf_jars", "perf_version"]

_CLASS: Final = "org.apache.kafka.tools.ProducerPerformance"


def perf_jars() -> list[Path]:
    """Return the folders of its jars, fetched once. Raises KafkaUnavailableError when they can't be fetched."""
    tools = fetched(f"kafka-tools-{DEFAULT_VERSION}", [("org.apache.kafka", "kafka-tools", DEFAULT_VERSION)])
    return [tools, kafka_libs()]


def perf_command(bootstrap_servers: str, topic: str, records: int, size: int) -> list[str]:
    """Return the command that sends records as fast as it can, with Java's defaults."""
    return [
        *(str(java()), "-cp", os.pathsep.join(f"{folder}/*" for folder in perf_jars()), _CLASS, "--topic", topic),
        *("--num-records", str(records), "--record-size", str(size), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bootstrap_servers}"),
    ]


def perf_version() -> dict[str, str]:
    """Return the version of the client."""
    return {"kafka-clients (Java)": DEFAULT_VERSION}
