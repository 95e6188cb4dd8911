"""What can go wrong between a test and the real broker that it asked for."""

from __future__ import annotations

from aioprod.errors import AioprodError

__all__ = ["KafkaStartError", "KafkaUnavailableError", "ToolError", "UnusedFaultError", "UnusedFaultWarning"]


class KafkaUnavailableError(AioprodError):
    """This machine can give no real Kafka: no Docker engine with the image, no Java, or no way to fetch the jars."""


class KafkaStartError(AioprodError):
    """A broker was started and did not come up, or died; the message ends with the last lines of its log."""


class ToolError(AioprodError):
    """A program that was run for the tests (pip, a Java compiler) failed; the message holds its last lines."""


class UnusedFaultError(AioprodError):
    """A fault that was ordered never hit a request, in a `FakeCluster(strict=True)`."""


class UnusedFaultWarning(UserWarning):
    """A fault that was ordered never hit a request, so the test may have passed without it."""
