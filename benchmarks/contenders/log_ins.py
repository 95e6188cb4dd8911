"""The log-in of a job in the words of a peer, whose process imports aioprod only if there is one."""

from __future__ import annotations

from typing import Any

from benchmarks.job import Job

__all__ = ["aiokafka_log_in", "librdkafka_log_in"]


def librdkafka_log_in(job: Job) -> dict[str, Any]:
    """That of confluent-kafka."""
    if not job.log_in:
        return {}
    from aioprod.cli.peer_settings import librdkafka_settings

    return librdkafka_settings(job.log_in)


def aiokafka_log_in(job: Job) -> dict[str, Any]:
    """That of aiokafka."""
    if not job.log_in:
        return {}
    from aioprod.cli.peer_settings import aiokafka_settings

    return aiokafka_settings(job.log_in)
