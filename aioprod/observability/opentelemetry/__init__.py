"""Traces and metrics by OpenTelemetry's API, with the extra `aioprod[opentelemetry]`.

Names are those of the semantic conventions for messaging, version 1.44:
https://opentelemetry.io/docs/specs/semconv/messaging/
"""

from __future__ import annotations

from aioprod.errors import UsageError

try:
    import opentelemetry.trace  # noqa: F401 - says early what is missing
except ImportError as missing:
    raise UsageError(
        "aioprod.observability.opentelemetry needs opentelemetry-api, which is not installed.",
        hint="pip install 'aioprod[opentelemetry]'",
    ) from missing

from aioprod.observability.opentelemetry.consumer import context_of, process_span
from aioprod.observability.opentelemetry.meters import observe
from aioprod.observability.opentelemetry.producer import TracedProducer

__all__ = ["TracedProducer", "context_of", "observe", "process_span"]
