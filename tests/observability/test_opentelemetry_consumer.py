"""Spans of records that were read, and what samplers see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind

from aioprod import Member, read
from aioprod.errors import (
    ConfigError,
)
from aioprod.observability.opentelemetry import TracedProducer, context_of, process_span
from aioprod.testing import FakeCluster
from tests.support.traces import Collected, described


async def test_samplers_see_what_the_span_is_about() -> None:
    seen: list[tuple[str, SpanKind | None, dict[str, Any]]] = []

    class Looking(Sampler):
        def should_sample(self, *arguments: Any, **options: Any) -> SamplingResult:
            _, _, name, kind, attributes, *_ = arguments
            seen.append((name, kind, dict(attributes or {})))
            return SamplingResult(Decision.DROP)

        def get_description(self) -> str:
            return "Looking"

    provider = TracerProvider(sampler=Looking())
    async with FakeCluster() as brokers:
        async with TracedProducer(brokers.bootstrap, tracer_provider=provider, client_id="shop") as producer:
            await producer.send("t", b"v")
        (record,) = [record async for record in read("t", bootstrap_servers=brokers.bootstrap)]
    with process_span(record, group_id="g", tracer_provider=provider):
        pass
    send, process = seen
    assert send == (
        "send t",
        SpanKind.PRODUCER,
        {
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.client.id": "shop",
            "messaging.destination.name": "t",
        },
    )
    assert process == (
        "process t",
        SpanKind.CONSUMER,
        {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": "t",
            "messaging.destination.partition.id": "0",
            "messaging.consumer.group.name": "g",
        },
    )


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
    assert span.status.description == "It went wrong."
    assert [event.name for event in span.events] == ["exception"]
    assert described(span)["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in described(span)
    assert [link.context.span_id for link in span.links] == [outer.get_span_context().span_id]
