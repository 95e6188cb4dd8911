"""Spans of records that were read: each continues the trace that the record's headers carry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from aioprod import __version__
from aioprod.observability.opentelemetry import attributes as names
from aioprod.observability.opentelemetry.propagation import extracted
from aioprod.types import ConsumedRecord

__all__ = ["context_of", "process_span"]


def context_of(record: ConsumedRecord) -> Context:
    """The context that the headers of a record carry, in the current one; of `Reader` and `Member` alike."""
    return extracted(record.headers)


@contextmanager
def process_span(
    record: ConsumedRecord,
    *,
    group_id: str | None = None,
    client_id: str | None = None,
    tracer_provider: TracerProvider | None = None,
    record_keys: bool = True,
) -> Iterator[Span]:
    """Process a record in a span (kind CONSUMER, `process {topic}`) whose parent is what the record's headers carry.

    It is the current span inside, and links to the one that was current before. An exception is recorded, and goes
    on. `record_keys=False` keeps the key, which may be personal, out of the span.
    """
    tracer = trace.get_tracer("aioprod", __version__, tracer_provider=tracer_provider, schema_url=names.SCHEMA_URL)
    outer = trace.get_current_span().get_span_context()
    context = context_of(record)
    parent = trace.get_current_span(context).get_span_context()
    links = [Link(outer)] if outer.is_valid and parent != outer else []
    with tracer.start_as_current_span(
        f"process {record.topic}", context, SpanKind.CONSUMER, links=links, record_exception=True
    ) as span:
        if span.is_recording():
            _describe(span, record, group_id, client_id, record_keys)
        try:
            yield span
        except BaseException as error:
            span.set_attribute(names.ERROR_TYPE, names.error_type(error))
            span.set_status(Status(StatusCode.ERROR, str(error)))
            raise


def _describe(
    span: Span, record: ConsumedRecord, group_id: str | None, client_id: str | None, record_keys: bool
) -> None:
    span.set_attributes(
        {
            names.SYSTEM: "kafka",
            names.OPERATION: "process",
            names.OPERATION_TYPE: "process",
            names.DESTINATION: record.topic,
            names.PARTITION: str(record.partition),
            names.OFFSET: record.offset,
        }
    )
    optional = {names.CONSUMER_GROUP: group_id, names.CLIENT_ID: client_id}
    span.set_attributes({name: value for name, value in optional.items() if value is not None})
    if record.value is None:
        span.set_attribute(names.TOMBSTONE, True)
    if record_keys and (text := names.key_text(record.key)) is not None:
        span.set_attribute(names.KEY, text)
