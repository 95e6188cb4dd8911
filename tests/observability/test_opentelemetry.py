"""Spans of single records, as OpenTelemetry's SDK collects them, are what was sent."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode, TraceFlags

from aioprod import Producer, ProducerRecord
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    SerializationError,
    UsageError,
)
from aioprod.messages import ProduceRequest
from aioprod.observability.opentelemetry import TracedProducer
from aioprod.testing import FakeCluster
from tests.support.traces import OTHERS, Collected, described, headers_of


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
    span = collected.only()
    (link,) = span.links
    assert f"{link.context.span_id:016x}" == "b7ad6b7169203331"
    assert span.kind is SpanKind.CLIENT  # No record carries its context.


async def test_baggage_of_the_caller_keeps_no_context_away(collected: Collected) -> None:
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer:
            token = attach(set_baggage("ours", "1"))
            try:
                await producer.send("t", b"v", headers=[("Baggage", b"theirs=2")])
            finally:
                detach(token)
        (carried,) = headers_of(brokers, "t")
    span = collected.only()
    assert set(carried) == {"Baggage", "traceparent"}
    assert carried["Baggage"] == b"theirs=2"
    assert f"{span.context.span_id:016x}".encode() in (carried["traceparent"] or b"")


@pytest.mark.parametrize("headers", [5, [7], [("traceparent", "text")], [("traceparent",)]])
async def test_headers_that_are_none_fail_as_without_tracing(headers: Any, collected: Collected) -> None:
    async with FakeCluster() as brokers:
        async with Producer(brokers.bootstrap) as plain:
            with pytest.raises(SerializationError) as usual:
                await plain.send("t", b"v", headers=headers)
        async with TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer:
            with pytest.raises(SerializationError) as traced:
                await producer.send("t", b"v", headers=headers)
    assert str(traced.value) == str(usual.value)
    assert described(collected.only())["error.type"] == "SerializationError"


async def called(call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    outcome = call(*arguments, **options)
    if outcome is not None:
        await outcome


@pytest.mark.parametrize(
    ("arguments", "options"),
    [(("t",), {}), ((ProducerRecord("t", b"v"), b"w"), {}), ((ProducerRecord("t", b"v"),), {"key": b"k"})],
)
@pytest.mark.parametrize("style", ["send", "submit", "send_nowait"])
async def test_wrong_arguments_fail_as_without_tracing(
    style: str, arguments: Any, options: Any, collected: Collected
) -> None:
    said = []
    async with (
        FakeCluster() as brokers,
        Producer(brokers.bootstrap) as plain,
        TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as traced,
    ):
        for producer in (plain, traced):
            with pytest.raises((InvalidRecordError, UsageError)) as raised:
                await called(getattr(producer, style), *arguments, **options)
            said.append((type(raised.value), str(raised.value)))
    assert said[0] == said[1]
    assert described(collected.only())["error.type"] == said[0][0].__qualname__


async def test_a_failure_that_nobody_waits_for_is_reported_as_without_tracing(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    reports: list[list[tuple[str, ProducerRecord]]] = []
    lines: list[list[str]] = []
    for tracing in (False, True):
        reported: list[tuple[str, ProducerRecord]] = []
        for on_error in (lambda error, record, to=reported: to.append((type(error).__name__, record)), None):
            caplog.clear()
            async with FakeCluster() as brokers:
                options: Any = {"on_error": on_error, "key_serializer": "string", "linger_ms": 1}
                traced: Any = {"tracer_provider": collected.provider} if tracing else {}
                async with (TracedProducer if tracing else Producer)(
                    brokers.bootstrap, **options, **traced
                ) as producer:
                    brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
                    for number in range(3):
                        producer.send_nowait("t", b"v", key=f"k{number}", timestamp=number)
                    await producer.flush()
        reports.append([(kind, replace(record, headers=None)) for kind, record in reported])
        lines.append([record.getMessage() for record in caplog.records if "without" in record.getMessage()])
    assert len(reports[0]) == 3
    assert reports[1] == reports[0]
    assert len(lines[0]) == 1
    assert lines[1] == lines[0]


async def test_the_log_names_the_callback_that_fails(collected: Collected, caplog: pytest.LogCaptureFixture) -> None:
    def broken(metadata: Any, error: Any) -> None:
        raise KeyError("it")

    async with (
        FakeCluster() as brokers,
        TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer,
    ):
        producer.send_nowait("t", b"v", on_delivery=broken)
        await producer.flush()
    (line,) = (record.getMessage() for record in caplog.records if "on_delivery" in record.getMessage())
    assert "broken raised KeyError" in line
    assert collected.only().status.status_code is StatusCode.UNSET


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


@pytest.mark.parametrize("style", ["submit", "send_nowait"])
async def test_records_that_wait_keep_no_producer_alive(style: str, collected: Collected) -> None:
    async with FakeCluster() as brokers:
        producer = TracedProducer(brokers.bootstrap, tracer_provider=collected.provider)
        await producer.start()
        held = brokers.fault(ProduceRequest, hold=True)
        waiting = getattr(producer, style)("t", b"v")
        async with asyncio.timeout(30):
            await held.reached.wait()
        forgotten = weakref.ref(producer)
        with pytest.warns(ResourceWarning):
            del producer
        assert forgotten() is None
        held.release()
        if waiting is not None:
            await waiting
