"""A producer whose calls are spans: each from the call to the acknowledgement, with offset, error and duration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from aioprod import __version__
from aioprod.errors import AioprodError
from aioprod.observability.opentelemetry import attributes as names
from aioprod.observability.opentelemetry.propagation import extracted, with_context
from aioprod.producer import Producer
from aioprod.producer.callbacks import DeliveryCallbacks
from aioprod.types import (
    NO_VALUE,
    DeliveryCallback,
    Headers,
    ProducerRecord,
    RecordMetadata,
    SendResult,
    Timestamp,
    TopicPartition,
)

__all__ = ["TracedProducer"]

_LINKS_MAX: Final = 128
"""What the SDK keeps of a span's links unless its limits are set."""


class TracedProducer(Producer):
    """A `Producer` that makes a span of each `send`, `submit` and `send_nowait`, and one of each bulk call.

    `tracer_provider` is by default the global one. A span of a single record (kind PRODUCER, `send {topic}`) begins
    with the call and ends with the record's outcome; its context goes into the headers, unless the caller has put one
    there, which the span links to. One of a bulk call (kind CLIENT) links to the contexts in the headers of its
    records, the first 128. A span that is not recorded has no attributes; without an SDK there is none.
    `record_keys=False` keeps keys, which may be personal, out of the spans.
    """

    __slots__ = ("_given", "_record_keys", "_tracer")

    def __init__(
        self, *arguments: Any, tracer_provider: TracerProvider | None = None, record_keys: bool = True, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._tracer: Tracer = trace.get_tracer(
            "aioprod", __version__, tracer_provider=tracer_provider, schema_url=names.SCHEMA_URL
        )
        self._record_keys = record_keys
        self._given = DeliveryCallbacks()

    # --- one record

    async def send(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> RecordMetadata:
        """Send one record as `Producer.send` does, in a span."""
        begun = self._begin(topic, value, key, partition, headers, timestamp)
        if begun is None:
            return await super().send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)
        span, record = begun
        try:
            metadata = await super().send(record)
        except BaseException as error:
            self._end(span, None, error)
            raise
        self._end(span, metadata, None)
        return metadata

    def submit(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Accept one record as `Producer.submit` does, in a span that ends with its future."""
        begun = self._begin(topic, value, key, partition, headers, timestamp)
        if begun is None:
            return super().submit(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)
        span, record = begun
        try:
            future = super().submit(record)
        except BaseException as error:
            self._end(span, None, error)
            raise
        if span.is_recording():

            def done(future: asyncio.Future[RecordMetadata]) -> None:
                if future.cancelled():
                    self._end(span, None, asyncio.CancelledError())
                else:
                    # Not `exception()`: the future would count as looked at.
                    error: BaseException | None = future._exception
                    self._end(span, None if error is not None else future.result(), error)

            future.add_done_callback(done)
        return future

    def send_nowait(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Accept one record as `Producer.send_nowait` does, in a span that ends with its outcome."""
        begun = self._begin(topic, value, key, partition, headers, timestamp)
        if begun is None:
            super().send_nowait(
                topic,
                value,
                key=key,
                partition=partition,
                headers=headers,
                timestamp=timestamp,
                on_delivery=on_delivery,
            )
            return
        span, record = begun
        if not span.is_recording():
            super().send_nowait(record, on_delivery=on_delivery)
            return

        def delivered(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            self._end(span, metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)
            elif error is not None:
                self._engine.completions.report_unwatched(error, record)

        try:
            if on_delivery is not None:
                self._given.check(on_delivery)
            super().send_nowait(record, on_delivery=delivered)
        except BaseException as error:
            self._end(span, None, error)
            raise

    # --- many records

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        headers: Headers | Iterable[Headers | None] | None = None,
        timestamps: Timestamp | Iterable[Timestamp | None] | None = None,
    ) -> SendResult:
        """Send all `values` as `Producer.send_many` does, in one span."""
        with self._bulk(topic, _links(headers)) as span:
            result = await super().send_many(
                topic, values, keys=keys, partition=partition, headers=headers, timestamps=timestamps
            )
            _bulk_sent(span, result)
            return result

    async def send_arrow(self, batch: Any, *, topic: str | None = None) -> SendResult:
        """Send the rows of Arrow data as `Producer.send_arrow` does, in one span."""
        with self._bulk(topic, None) as span:
            result = await super().send_arrow(batch, topic=topic)
            _bulk_sent(span, result)
            return result

    # --- spans

    def _begin(
        self,
        topic: str | ProducerRecord,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp: Timestamp | None,
    ) -> tuple[Span, ProducerRecord] | None:
        """The span of a record, and the record with the span's context; None where nothing is traced."""
        if isinstance(topic, ProducerRecord):
            record = topic
            topic, value, key, partition = record.topic, record.value, record.key, record.partition
            headers, timestamp = record.headers, record.timestamp
        span = self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, links=_links(headers))
        if not span.get_span_context().is_valid:
            return None
        if span.is_recording():
            span.set_attributes(self._common(topic))
            if value is None:
                span.set_attribute(names.TOMBSTONE, True)
            if self._record_keys and (text := names.key_text(key)) is not None:
                span.set_attribute(names.KEY, text)
        carried = with_context(headers, trace.set_span_in_context(span))
        return span, ProducerRecord(topic, value, key=key, partition=partition, headers=carried, timestamp=timestamp)

    def _common(self, topic: str | None) -> dict[str, str]:
        given = {
            names.SYSTEM: "kafka",
            names.OPERATION: "send",
            names.OPERATION_TYPE: "send",
            names.CLIENT_ID: self.client_id,
        }
        return given if topic is None else given | {names.DESTINATION: str(topic)}

    def _end(self, span: Span, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        if span.is_recording():
            if metadata is not None:
                span.set_attribute(names.PARTITION, str(metadata.partition))
                if metadata.offset >= 0:
                    span.set_attribute(names.OFFSET, metadata.offset)
                self._name_server(span, TopicPartition(metadata.topic, metadata.partition))
            if error is not None:
                partition = getattr(error, "partition", None)
                if isinstance(partition, int) and partition >= 0:
                    span.set_attribute(names.PARTITION, str(partition))
                _fail(span, error)
        span.end()

    def _name_server(self, span: Span, tp: TopicPartition) -> None:
        leader = self._engine.client.metadata.cluster.leader_for(tp)
        if leader is not None:
            span.set_attribute(names.SERVER_ADDRESS, leader.host)
            span.set_attribute(names.SERVER_PORT, leader.port)

    def _bulk(self, topic: str | None, links: Sequence[Link] | None) -> Any:
        name = "send" if topic is None else f"send {topic}"
        return self._tracer.start_as_current_span(
            name, kind=SpanKind.CLIENT, links=links, attributes=self._common(topic), record_exception=False
        )


def _links(headers: Any) -> list[Link] | None:
    """Links to the contexts in the headers of one record, or of many."""
    if not headers or not isinstance(headers, Sequence):
        return None
    of_many = [headers] if _is_header(headers[0]) else headers
    contexts = (
        trace.get_current_span(extracted(one, trace.set_span_in_context(trace.INVALID_SPAN))).get_span_context()
        for one in of_many
        if isinstance(one, Sequence) and all(map(_is_header, one)) and one
    )
    found = {(context.trace_id, context.span_id): context for context in contexts if context.is_valid}
    return [Link(context) for context in islice(found.values(), _LINKS_MAX)]


def _is_header(one: Any) -> bool:
    return isinstance(one, (tuple, list)) and len(one) == 2 and isinstance(one[0], str)


def _fail(span: Span, error: BaseException) -> None:
    message = error.message if isinstance(error, AioprodError) else str(error)
    span.set_attribute(names.ERROR_TYPE, names.error_type(error))
    span.set_status(Status(StatusCode.ERROR, message))


def _bulk_sent(span: Span, result: SendResult) -> None:
    if span.is_recording():
        span.set_attribute(names.BATCH_COUNT, result.count)
        # Not `failures`: the result would count as looked at.
        failures = result._failures
        if failures:
            _, first = failures[0]
            span.set_attribute(names.ERROR_TYPE, names.error_type(first))
            span.set_status(Status(StatusCode.ERROR, f"{len(failures)} of {result.count} records failed."))
