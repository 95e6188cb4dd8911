"""Spans as an SDK of OpenTelemetry collects them, and the headers of records."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aioprod.testing import FakeCluster

__all__ = ["OTHERS", "Collected", "described", "headers_of"]

OTHERS = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""A traceparent of somebody else."""


class Collected:
    """Spans that have ended, by a provider of their own."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def only(self) -> ReadableSpan:
        (span,) = self.spans
        return span


def described(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def headers_of(brokers: FakeCluster, topic: str) -> list[dict[str, bytes | None]]:
    return [dict(record.headers) for record in brokers.records(topic)]
