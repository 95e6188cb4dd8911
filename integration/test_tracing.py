"""Traces through a real Kafka: a service, the broker, a member of a group, and a client of another make."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from aioprod import Member
from aioprod.errors import RejectedError
from aioprod.observability.opentelemetry import TracedProducer, process_span
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from tests.support.traces import Collected, described

PATIENCE_S = 60.0


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.provider.shutdown()


def place(span: ReadableSpan) -> tuple[str, int]:
    return described(span)["messaging.destination.partition.id"], described(span)["messaging.kafka.offset"]


def sent_spans(collected: Collected, topic: str) -> list[ReadableSpan]:
    return [span for span in collected.spans if span.name == f"send {topic}"]


async def test_a_trace_goes_from_a_caller_through_kafka_to_a_member_and_on(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, collected: Collected
) -> None:
    tracer = collected.provider.get_tracer("service")
    orders, bills = await make_topic(kafka_cluster, partitions=3), await make_topic(kafka_cluster)
    servers = kafka_cluster.bootstrap_servers
    with tracer.start_as_current_span("browser") as browser:
        incoming: dict[str, str] = {}
        inject(incoming)
    async with TracedProducer(servers, client_id="shop", tracer_provider=collected.provider) as producer:
        with tracer.start_as_current_span("POST /orders", extract(incoming)):
            first = await producer.send(orders, b"a book", key=b"42")
            futures = [producer.submit(orders, b"a pen", key=b"42"), producer.submit(orders, b"a cup", key=b"7")]
            placed = [first, *[await future for future in futures]]
        async with Member(servers, group_id=f"of-{orders}", topics=[orders], auto_offset_reset="earliest") as member:
            async with asyncio.timeout(PATIENCE_S):
                for _ in range(3):
                    record = await anext(member)
                    with process_span(record, group_id=f"of-{orders}", tracer_provider=collected.provider):
                        await producer.send(bills, record.value)
            await member.commit()

    spans = {span.context.span_id: span for span in collected.spans}
    assert {span.context.trace_id for span in spans.values()} == {browser.get_span_context().trace_id}
    billed = sent_spans(collected, bills)
    assert len(billed) == 3
    for span in billed:
        names = []
        at: ReadableSpan | None = span
        while at is not None:
            names.append(at.name)
            at = spans[at.parent.span_id] if at.parent is not None else None
        assert names == [f"send {bills}", f"process {orders}", f"send {orders}", "POST /orders", "browser"]
    expected = {(str(metadata.partition), metadata.offset) for metadata in placed}
    for kind in (SpanKind.PRODUCER, SpanKind.CONSUMER):
        found = [s for s in spans.values() if s.kind is kind and described(s)["messaging.destination.name"] == orders]
        assert {place(span) for span in found} == expected
    host, port = servers.split(",")[0].rsplit(":", 1)
    assert {(described(s)["server.address"], described(s)["server.port"]) for s in billed} == {(host, int(port))}


async def test_another_client_finds_the_context_in_the_headers(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, collected: Collected
) -> None:
    topic = await make_topic(kafka_cluster)
    async with TracedProducer(kafka_cluster.bootstrap_servers, tracer_provider=collected.provider) as producer:
        await producer.send(topic, b"v", headers=[("a", b"b")])
        producer.send_nowait(topic, b"v")
    headers = await asyncio.to_thread(headers_of, kafka_cluster.bootstrap_servers, topic, 2)
    carried = [
        trace.get_current_span(extract({"traceparent": one["traceparent"].decode()})).get_span_context()
        for one in headers
    ]
    assert [one.get("a") for one in headers] == [b"b", None]
    sent = sent_spans(collected, topic)
    assert [context.span_id for context in carried] == [span.context.span_id for span in sent]
    assert [described(span)["messaging.kafka.offset"] for span in sent] == [0, 1]


def headers_of(servers: str, topic: str, count: int) -> list[dict[str, Any]]:
    """The headers of the first records of a topic, as confluent-kafka reads them."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": f"headers-of-{topic}", "enable.auto.commit": False}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, PATIENCE_S)
        return [dict(message.headers() or []) for message in messages]
    finally:
        consumer.close()


async def test_what_the_broker_refuses_is_in_the_spans(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, collected: Collected
) -> None:
    topic = await make_topic(kafka_cluster, **{"max.message.bytes": 1000})
    async with TracedProducer(
        kafka_cluster.bootstrap_servers, tracer_provider=collected.provider, linger_ms=5
    ) as producer:
        with pytest.raises(RejectedError):
            await producer.send(topic, b"v" * 5000)
        result = await producer.send_many(topic, [b"small", b"v" * 5000, b"small"])
        assert [index for index, _ in result.failures] == [1]
    one, many = sent_spans(collected, topic)
    for span in (one, many):
        assert span.status.status_code is StatusCode.ERROR
        assert described(span)["error.type"] == "MESSAGE_TOO_LARGE"
    assert many.status.description == "1 of 3 records failed."
    assert described(many)["messaging.batch.message_count"] == 3
