"""Metrics as OpenTelemetry's SDK collects them are what was sent."""

from __future__ import annotations

import asyncio
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from aioprod import Member, Producer
from aioprod.observability.opentelemetry import observe
from aioprod.testing import FakeCluster


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
        observe(producer, meter_provider=provider, durations=True)
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
