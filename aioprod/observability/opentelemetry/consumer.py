"""Spans of records that were read: each continues the trace that the record's headers carry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer, TracerProvider

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
    tracer = _tracer(tracer_provider)
    outer = trace.get_current_span().get_span_context()
    context = context_of(record)
    parent = trace.get_current_span(context).get_span_context()
    links = [Link(outer)] if outer.is_valid and parent != outer else []
    with tracer.start_as_current_span(
        f"process {record.topic}",
        context,
        SpanKind.CONSUMER,
        _sampled_by(record, group_id),
        links,
        set_status_on_exception=False,
    ) as span:
        if span.is_recording():
            _describe(span, record, client_id, record_keys)
        try:
            yield span
        except BaseException as error:
            names.fail(span, error)
            raise


# `get_tracer` of an SDK makes a tracer each time, which costs more than all else here.
@lru_cache(maxsize=8)
def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("aioprod", __version__, tracer_provider=provider, schema_url=names.SCHEMA_URL)


def _sampled_by(record: ConsumedRecord, group_id: str | None) -> dict[str, str]:
    """The attributes that a sampler may look at, which it sees at the beginning of a span only."""
    given = {
        names.SYSTEM: "kafka",
        names.OPERATION: "process",
        names.OPERATION_TYPE: "process",
        names.DESTINATION: record.topic,
        names.PARTITION: str(record.partition),
    }
    return given if group_id is None else given | {names.CONSUMER_GROUP: group_id}


def _describe(span: Span, record: ConsumedRecord, client_id: str | None, record_keys: bool) -> None:
    span.set_attribute(names.OFFSET, record.offset)
    if client_id is not None:
        span.set_attribute(names.CLIENT_ID, client_id)
    if record.value is None:
        span.set_attribute(names.TOMBSTONE, True)
    if record_keys and (text := names.key_text(record.key)) is not None:
        span.set_attribute(names.KEY, text)
