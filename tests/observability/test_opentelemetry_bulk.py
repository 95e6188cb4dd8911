"""A bulk call is one span."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from aioprod.errors import (
    ErrorCode,
    SerializationError,
    UsageError,
)
from aioprod.messages import ProduceRequest
from aioprod.observability.opentelemetry import TracedProducer
from aioprod.testing import FakeCluster
from tests.support.traces import OTHERS, Collected, described


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
    assert described(refused)["error.type"] == "SerializationError"


async def test_a_bulk_call_looks_at_the_headers_of_its_first_records_only(collected: Collected) -> None:
    looked_at: list[int] = []

    class Headers(list[tuple[str, bytes]]):
        def __init__(self, index: int) -> None:
            super().__init__([("traceparent", b"00-%032x-%016x-01" % (1, index + 1))] if index % 2 else [("a", b"b")])
            self.place = index

        def __iter__(self) -> Iterator[tuple[str, bytes]]:
            looked_at.append(self.place)
            return super().__iter__()

    producer = TracedProducer("localhost:1", tracer_provider=collected.provider)
    for headers in ([Headers(index) for index in range(5000)], [Headers(2 * index) for index in range(5000)]):
        with pytest.raises(UsageError):  # It was not started: what follows looks at no header.
            async with asyncio.timeout(30):
                await producer.send_many("t", [b"v"] * 5000, headers=headers)
    many, none = collected.spans
    assert [link.context.span_id for link in many.links] == list(range(2, 258, 2))
    assert none.links == ()
    assert max(looked_at) == 2 * 999
    assert described(many)["error.type"] == "UsageError"


async def test_a_bulk_call_that_is_cancelled_ends_its_span(collected: Collected) -> None:
    async with (
        FakeCluster() as brokers,
        TracedProducer(brokers.bootstrap, tracer_provider=collected.provider) as producer,
    ):
        held = brokers.fault(ProduceRequest, hold=True)
        sending = asyncio.create_task(producer.send_many("t", [b"v"]))
        async with asyncio.timeout(30):
            await held.reached.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        held.release()
    assert described(collected.only())["error.type"] == "CancelledError"
    assert collected.only().status.status_code is StatusCode.ERROR
