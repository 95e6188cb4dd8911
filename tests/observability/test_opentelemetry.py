"""Traces and metrics as OpenTelemetry's SDK collects them are what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode, TraceFlags

from aioprod import Member, Producer, ProducerRecord, read
from aioprod.errors import AioprodError, ConfigError, DeliveryError, ErrorCode, SerializationError, UsageError
from aioprod.messages import ProduceRequest
from aioprod.observability.opentelemetry import TracedProducer, context_of, observe, process_span
from aioprod.testing import FakeCluster

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


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.provider.shutdown()


def described(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def headers_of(brokers: FakeCluster, topic: str) -> list[dict[str, bytes | None]]:
    return [dict(record.headers) for record in brokers.records(topic)]


async def test_a_send_is_a_span_until_its_acknowledgement(collected: Collected) -> None:
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, client_id="shop", tracer_provider=collected.provider) as producer:
            held = brokers.fault(ProduceRequest, hold=True)
            sending = asyncio.create_task(producer.send("orders", b"v", key=b"k", headers=[("a", b"b")]))
            async with asyncio.timeout(30):
                await held.reached.wait()
            assert collected.spans == ()
            held.release()
            metadata = await sending
        host, port = brokers.addresses[0]
        span = collected.only()
        (carried,) = headers_of(brokers, "orders")
    assert (span.name, span.kind, span.status.status_code) == ("send orders", SpanKind.PRODUCER, StatusCode.UNSET)
    assert described(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "shop",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": str(metadata.partition),
        "messaging.kafka.offset": metadata.offset,
        "messaging.kafka.message.key": "k",
        "server.address": host,
        "server.port": port,
    }
    context = span.context
    assert carried == {
        "a": b"b",
        "traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}".encode(),
    }


async def test_submit_and_send_nowait_end_their_spans_with_the_outcome(collected: Collected) -> None:
    outcomes: list[Any] = []
    async with (
        FakeCluster() as brokers,
        TracedProducer(brokers.bootstrap, tracer_provider=collected.provider, record_keys=False) as producer,
    ):
        await producer.submit(ProducerRecord("t", None, key=b"k"))
        producer.send_nowait("t", b"v", on_delivery=lambda metadata, error: outcomes.append((metadata, error)))
        producer.send_nowait("t", b"v")
        await producer.flush()
    assert [described(span)["messaging.kafka.offset"] for span in collected.spans] == [0, 1, 2]
    assert described(collected.spans[0])["messaging.kafka.message.tombstone"] is True
    assert all("messaging.kafka.message.key" not in described(span) for span in collected.spans)
    ((metadata, error),) = outcomes
    assert (metadata.offset, error) == (1, None)


@pytest.mark.parametrize("style", ["send", "submit", "send_nowait", "send_nowait and callback"])
async def test_a_failure_is_in_the_span_and_where_it_is_without_one(style: str, collected: Collected) -> None:
    failed: list[tuple[AioprodError, ProducerRecord]] = []
    called: list[AioprodError | None] = []
    async with (
        FakeCluster() as brokers,
        TracedProducer(
            brokers.bootstrap,
            tracer_provider=collected.provider,
            on_error=lambda error, record: failed.append((error, record)),
        ) as producer,
    ):
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
        if style == "send":
            with pytest.raises(DeliveryError):
                await producer.send("t", b"v")
        elif style == "submit":
            with pytest.raises(DeliveryError):
                await producer.submit("t", b"v")
        elif style == "send_nowait":
            producer.send_nowait("t", b"v")
        else:
            producer.send_nowait("t", b"v", on_delivery=lambda _, error: called.append(error))
        await producer.flush()
    span = collected.only()
    assert span.status.status_code is StatusCode.ERROR
    assert described(span)["error.type"] == "INVALID_RECORD"
    assert described(span)["messaging.destination.partition.id"] == "0"
    assert [record.value for _, record in failed] == ([b"v"] if style == "send_nowait" else [])
    assert len(called) == (style == "send_nowait and callback")


async def test_what_is_not_accepted_ends_its_span(collected: Collected) -> None:
    async with (
        FakeCluster() as brokers,
        TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer,
    ):
        with pytest.raises(SerializationError):
            await producer.send("t", 5)
        with pytest.raises(SerializationError):
            producer.submit("t", 5)
        with pytest.raises(SerializationError):
            producer.send_nowait("t", 5, on_delivery=lambda metadata, error: None)
        with pytest.raises(UsageError):
            producer.send_nowait("t", b"v", on_delivery=lambda: None)  # type: ignore[arg-type, misc]
        cancelled = producer.submit("t", b"v")
        cancelled.cancel()
    types = [described(span)["error.type"] for span in collected.spans]
    assert types == ["SerializationError"] * 3 + ["UsageError", "CancelledError"]


async def test_the_context_that_the_caller_put_there_stays(collected: Collected) -> None:
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer:
            await producer.send("t", b"v", headers=[("traceparent", OTHERS)])
        (record,) = brokers.records("t")
    assert list(record.headers) == [("traceparent", OTHERS)]
    (link,) = collected.only().links
    assert f"{link.context.span_id:016x}" == "b7ad6b7169203331"


async def test_a_bulk_call_is_one_span_with_links(collected: Collected) -> None:
    async with (
        FakeCluster() as brokers,
        TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer,
    ):
        (await producer.send_many("t", [b"v"] * 3, headers=[None, [("traceparent", OTHERS)], []])).raise_for_failures()
        (await producer.send_arrow(pa.table({"value": [b"v"] * 4}), topic="t")).raise_for_failures()
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
        result = await producer.send_many("t", [b"v"] * 2)
        assert len(result.failures) == 2
        with pytest.raises(SerializationError):
            await producer.send_many("t", [5])
    many, arrow, partly, refused = collected.spans
    assert [span.kind for span in collected.spans] == [SpanKind.CLIENT] * 4
    assert [described(span).get("messaging.batch.message_count") for span in collected.spans] == [3, 4, 2, None]
    assert len(many.links) == 1
    assert arrow.links == ()
    assert partly.status.description == "2 of 2 records failed."
    assert described(partly)["error.type"] == "INVALID_RECORD"
    assert refused.status.status_code is StatusCode.ERROR


async def test_without_an_sdk_nothing_is_built() -> None:
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, tracer_provider=NoOpTracerProvider()) as producer:
            await producer.send("t", b"v")
            await producer.submit("t", b"v")
            producer.send_nowait("t", b"v")
        assert headers_of(brokers, "t") == [{}, {}, {}]


async def test_a_span_that_is_not_sampled_is_passed_on_as_such() -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, tracer_provider=provider) as producer:
            await producer.send("t", b"v")
            producer.send_nowait("t", b"v", on_delivery=lambda metadata, error: None)
        for carried in headers_of(brokers, "t"):
            assert not int((carried["traceparent"] or b"")[-2:], 16) & TraceFlags.SAMPLED


async def test_a_trace_goes_from_the_service_through_kafka_to_the_member(collected: Collected) -> None:
    tracer = collected.provider.get_tracer("service")
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer:
            with tracer.start_as_current_span("request"):
                await producer.send("orders", b"v", key=b"k")
        async with Member(brokers.bootstrap, group_id="g", topics=["orders"], auto_offset_reset="earliest") as member:
            async with asyncio.timeout(30):
                record = await anext(member)
            processing = process_span(record, group_id="g", client_id="worker", tracer_provider=collected.provider)
            with processing, tracer.start_as_current_span("store"):
                pass
        async for again in read("orders", bootstrap_servers=brokers.bootstrap):
            assert trace.get_current_span(context_of(again)).get_span_context().is_valid
    by_name = {span.name: span for span in collected.spans}
    assert set(by_name) == {"send orders", "request", "store", "process orders"}
    assert len({span.context.trace_id for span in collected.spans}) == 1
    parents = {name: span.parent.span_id if span.parent else None for name, span in by_name.items()}
    ids = {name: span.context.span_id for name, span in by_name.items()}
    assert parents == {
        "request": None,
        "send orders": ids["request"],
        "process orders": ids["send orders"],
        "store": ids["process orders"],
    }
    assert described(by_name["process orders"]) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.kafka.message.key": "k",
        "messaging.consumer.group.name": "g",
        "messaging.client.id": "worker",
    }


async def test_processing_that_fails_links_to_the_span_around_it(collected: Collected) -> None:
    tracer = collected.provider.get_tracer("service")
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer:
            await producer.send("t", None, key=b"\xff")
        records = [record async for record in read("t", bootstrap_servers=brokers.bootstrap)]
    processing = process_span(records[0], tracer_provider=collected.provider)
    with tracer.start_as_current_span("loop") as outer, pytest.raises(ConfigError), processing:
        raise ConfigError("It went wrong.")
    (span,) = (span for span in collected.spans if span.name == "process t")
    assert described(span)["error.type"] == "ConfigError"
    assert described(span)["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in described(span)
    assert [link.context.span_id for link in span.links] == [outer.get_span_context().span_id]


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


async def test_metrics_are_what_was_sent() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    async with FakeCluster() as brokers, Producer(brokers.bootstrap, client_id="shop") as producer:
        observe(producer, meter_provider=provider)
        for topic in ("a", "a", "b"):
            await producer.send(topic, b"v")
        first = await asyncio.to_thread(points, reader)
        await producer.send("a", b"v")
        second = points(reader)
    sent = {
        point.attributes["messaging.destination.name"]: point.value for point in first["messaging.client.sent.messages"]
    }
    assert sent == {"a": 2, "b": 1}
    (duration,) = first["messaging.client.operation.duration"]
    assert duration.count == 3
    assert duration.explicit_bounds[0] == 0.005
    assert dict(duration.attributes) == {
        "messaging.system": "kafka",
        "messaging.client.id": "shop",
        "messaging.operation.name": "send",
    }
    for name, value in (("aioprod.record_send", 3), ("aioprod.request_latency.count", 3)):
        assert [point.value for point in first[name]] == [value], name
        assert [point.value for point in second[name]] == [value + 1], name
    assert first["aioprod.request_latency.sum"][0].value > 0
    assert [point.value for point in first["aioprod.connection_count"]] == [1]
    provider.shutdown()


async def test_the_metrics_of_a_member_and_of_a_client_that_is_gone() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    member = Member("localhost:1", group_id="g", topics=["t"])
    observe(member, meter_provider=provider)
    assert [point.value for point in points(reader)["aioprod.records_consumed"]] == [0]
    del member
    data = reader.get_metrics_data()
    assert data is None or not points(reader).get("aioprod.records_consumed")
    provider.shutdown()
