"""Contenders in Java: its own benchmark of a producer, and programs beside ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from aioprod.testing.kafka.jars import DEFAULT_VERSION, compile_java, fetched, java, kafka_libs

__all__ = ["perf_command", "perf_jars", "perf_version", "program_command"]

_CLASS: Final = "org.apache.kafka.tools.ProducerPerformance"
_COSTS: Final = Path(__file__).with_name("ProcessCosts.java")


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


def program_command(source: Path, jars: Path, *words: object) -> list[str]:
    """Return the command of a JVM that runs the class in `source`, with the jars of a folder, and these arguments.

    It has as much memory as a small service.
    """
    classes = compile_java([source, _COSTS], jars)
    return [
        *(str(java()), "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
        *("-cp", os.pathsep.join([str(classes), f"{jars}/*"]), source.stem),
        *map(str, words),
    ]
