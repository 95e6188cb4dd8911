"""Errors of test clusters."""

from __future__ import annotations

from aioprod.errors import AioprodError

__all__ = ["KafkaStartError", "KafkaUnavailableError", "ToolError", "UnusedFaultError", "UnusedFaultWarning"]


class KafkaUnavailableError(AioprodError):
    """This machine cannot run Kafka: no Docker engine with the image, no Java, or no way to fetch the jars."""


class KafkaStartError(AioprodError):
    """A broker did not start, or died; the message ends with the last lines of its log."""


class ToolError(AioprodError):
    """A program that was run for the tests (pip, a Java compiler) failed; the message has its last lines."""


class UnusedFaultError(AioprodError):
    """A fault of a `FakeCluster(strict=True)` never hit a request."""


class UnusedFaultWarning(UserWarning):
    """A fault never hit a request, so the test may have passed without it."""
