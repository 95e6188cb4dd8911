"""A producer whose calls are spans: each from the call to the acknowledgement, with offset, error and duration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.trace import (
    Link,
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
)

from aioprod import __version__
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError
from aioprod.observability.opentelemetry import attributes as names
from aioprod.observability.opentelemetry.propagation import span_contexts, with_context
from aioprod.producer import Producer
from aioprod.producer.callbacks import UNWATCHED, DeliveryCallbacks
from aioprod.producer.engine import Engine
from aioprod.producer.preparation import record_of
from aioprod.types import (
    NO_VALUE,
    DeliveryCallback,
    ErrorCallback,
    Headers,
    ProducerRecord,
    RecordMetadata,
    SendResult,
    Timestamp,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import InterceptorsOption, PartitionerOption, ProducerOptions, SerializerOption

__all__ = ["TracedProducer"]

_WITHOUT_SDK: Final = (NoOpTracerProvider, ProxyTracerProvider)
"""What there is until an SDK sets a provider."""
_LINKS_MAX: Final = 128
"""What the SDK keeps of a span's links unless its limits are set."""

_LOOKED_AT_MAX: Final = 1000
"""Records of a bulk call whose headers are looked at for links: that takes a millisecond of the loop's time."""


class TracedProducer(Producer):
    """A `Producer` that makes a span of each `send`, `submit` and `send_nowait`, and one of each bulk call.

    `tracer_provider` is by default the global one. A span of a single record (kind PRODUCER, `send {topic}`) begins
    with the call and ends with the record's outcome; its context goes into the headers. Where the caller has put
    another one there, that one stays, and the span (of kind CLIENT then) links to it. One of a bulk call (kind CLIENT)
    links to the contexts in the headers of its first 1,000 records, to 128 at most. A span that is not recorded has no
    attributes but those that samplers see; without an SDK there is none. `record_keys=False` keeps keys, which may be
    personal, out of the spans. All else is as with `Producer`.
    """

    __slots__ = ("_common", "_given", "_provider", "_record_keys", "_tracer")

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: ProducerConfig | Mapping[str, Any] | None = None,
        key_serializer: SerializerOption | None = None,
        value_serializer: SerializerOption | None = None,
        partitioner: PartitionerOption | None = None,
        interceptors: InterceptorsOption = (),
        on_error: ErrorCallback | None = None,
        tracer_provider: TracerProvider | None = None,
        record_keys: bool = True,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """The class says what the arguments are."""
        super().__init__(
            bootstrap_servers,
            config=config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
            on_error=on_error,
            **options,
        )
        self._provider = tracer_provider
        self._tracer: Tracer = trace.get_tracer(
            "aioprod", __version__, tracer_provider=tracer_provider, schema_url=names.SCHEMA_URL
        )
        self._record_keys = record_keys
        self._given = DeliveryCallbacks()
        self._common = {
            names.SYSTEM: "kafka",
            names.OPERATION: "send",
            names.OPERATION_TYPE: "send",
            names.CLIENT_ID: self.client_id,
        }

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
            _end(self._engine, span, None, error)
            raise
        _end(self._engine, span, metadata, None)
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
            _end(self._engine, span, None, error)
            raise
        if span.is_recording():
            engine = self._engine

            def done(future: asyncio.Future[RecordMetadata]) -> None:
                if future.cancelled():
                    _end(engine, span, None, asyncio.CancelledError())
                else:
                    # Not `exception()`: the future would count as looked at.
                    error: BaseException | None = future._exception
                    _end(engine, span, None if error is not None else future.result(), error)

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
        try:
            if on_delivery is not None:
                self._given.check(on_delivery)
            super().send_nowait(record, on_delivery=_Delivered(self._engine, span, on_delivery))
        except BaseException as error:
            _end(self._engine, span, None, error)
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
        with self._bulk(topic, headers) as span:
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
        if self._is_off():
            return None
        if isinstance(topic, ProducerRecord):
            name, carried = topic.topic, topic.headers
        else:
            name, carried = topic, headers
        others = [Link(context) for context in span_contexts([carried])] if carried else []
        kind = SpanKind.CLIENT if others else SpanKind.PRODUCER
        attributes = {**self._common, names.DESTINATION: str(name)}
        span = self._tracer.start_span(f"send {name}", kind=kind, attributes=attributes, links=others)
        if not span.get_span_context().is_valid:
            return None
        try:
            record = record_of(topic, value, key, partition, headers, timestamp)
        except AioprodError as error:
            _end(self._engine, span, None, error)
            raise
        if span.is_recording():
            if record.value is None:
                span.set_attribute(names.TOMBSTONE, True)
            if self._record_keys and (text := names.key_text(record.key)) is not None:
                span.set_attribute(names.KEY, text)
        return span, replace(record, headers=with_context(carried, trace.set_span_in_context(span)))

    def _is_off(self) -> bool:
        """Whether there is neither an SDK nor a remote context to pass on, so that no span would have any effect."""
        provider = self._provider or trace.get_tracer_provider()
        return isinstance(provider, _WITHOUT_SDK) and trace.get_current_span() is trace.INVALID_SPAN

    @contextmanager
    def _bulk(self, topic: str | None, headers: Any) -> Iterator[Span]:
        links = [Link(context) for context in islice(span_contexts(_known(headers)), _LINKS_MAX)]
        name, attributes = "send", self._common
        if topic is not None:
            name, attributes = f"send {topic}", {**attributes, names.DESTINATION: str(topic)}
        span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes, links=links)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException as error:
            names.fail(span, error)
            raise
        finally:
            span.end()


class _Delivered:
    """Ends a span with the outcome of its record, then calls the user's `on_delivery`, if there is one.

    It does not refer to the producer, whose users may forget it while records wait.
    """

    __slots__ = ("_engine", "_span", "func")

    def __init__(self, engine: Engine, span: Span, on_delivery: DeliveryCallback | None) -> None:
        self._engine = engine
        self._span = span
        self.func = on_delivery
        """Named as that of a partial, so that the log names the user's function where it fails."""

    def __call__(self, metadata: RecordMetadata | None, error: AioprodError | None) -> Any:
        _end(self._engine, self._span, metadata, error)
        # What the user's returns is looked at, although it should be None: a coroutine is logged.
        return UNWATCHED if self.func is None else self.func(metadata, error)


def _end(engine: Engine, span: Span, metadata: RecordMetadata | None, error: BaseException | None) -> None:
    """End the span of a record with its outcome."""
    if span.is_recording():
        if metadata is not None:
            span.set_attribute(names.PARTITION, str(metadata.partition))
            if metadata.offset >= 0:
                span.set_attribute(names.OFFSET, metadata.offset)
            leader = engine.parts.client.metadata.cluster.leader_for(TopicPartition(metadata.topic, metadata.partition))
            if leader is not None:
                span.set_attributes({names.SERVER_ADDRESS: leader.host, names.SERVER_PORT: leader.port})
        if error is not None:
            partition = getattr(error, "partition", None)
            if isinstance(partition, int) and partition >= 0:
                span.set_attribute(names.PARTITION, str(partition))
            names.fail(span, error)
    span.end()


def _known(headers: Any) -> list[Any]:
    """The headers of single records that a bulk call has in hand: the same for all, or those of its first records."""
    if not isinstance(headers, Sequence) or not headers:
        return []
    first = headers[0]
    is_one = isinstance(first, (tuple, list)) and len(first) == 2 and isinstance(first[0], str)
    return [headers] if is_one else list(islice(headers, _LOOKED_AT_MAX))


def _bulk_sent(span: Span, result: SendResult) -> None:
    if span.is_recording():
        span.set_attribute(names.BATCH_COUNT, result.count)
        # Not `failures`: the result would count as looked at.
        failures = result._failures
        if failures:
            _, first = failures[0]
            span.set_attribute(names.ERROR_TYPE, names.error_type(first))
            span.set_status(Status(StatusCode.ERROR, f"{len(failures)} of {result.count} records failed."))
