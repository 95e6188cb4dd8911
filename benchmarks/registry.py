"""What a record with an Avro schema costs: aioprod beside confluent-kafka's `AIOProducer`, with a cached schema.

`python -m benchmarks.registry` prints a table; AIOPROD_NO_EXT=1 does so for the interpreted build. All ways send the
same values to one mock broker, and use one fake schema registry, whose only requests come before the measurement.
Rounds are interleaved in one process. CPU time is that of all threads, and the ratio is the median of that to
`AIOProducer`'s in the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import statistics
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from importlib import import_module
from itertools import islice
from typing import Any, Final

from confluent_kafka.aio import AIOProducer
from confluent_kafka.serialization import MessageField, SerializationContext

from aioprod import COMPILED, Producer
from aioprod.console.tables import Table
from aioprod.console.terminal import show
from aioprod.schema_registry import AvroSerializer, ConfluentSerializer, SchemaRegistry
from aioprod.testing import FakeSchemaRegistry
from benchmarks.brokers import start

with warnings.catch_warnings():
    # Authlib warns about httpx, when this module has made such warnings be shown always.
    import_module("authlib.deprecate")
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import AsyncSchemaRegistryClient
    from confluent_kafka.schema_registry._async.avro import AsyncAvroSerializer

TOPIC: Final = "records"
SLICE: Final = 500
ROUND: Final = 5_000
"""After so many records the outcomes are awaited, and those of `AIOProducer` flushed, which would wait for a timer."""
SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "namespace": "shop",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "total", "type": "double"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "lines", "type": {"type": "array", "items": "string"}},
        ],
    }
)
PEER: Final = "AIOProducer, AsyncAvroSerializer"

Send = Callable[[int], Awaitable[None]]


def values(count: int) -> Iterator[dict[str, Any]]:
    """The records of a round, some 100 bytes each."""
    for number in range(count):
        yield {
            "id": number,
            "customer": "a customer of some name",
            "total": number / 7,
            "note": None if number % 3 else "to be left at the door",
            "lines": ["espresso", "tea with milk", "water"],
        }


def peer(producer: Any, serializer: Any) -> Send:
    """As Confluent's guide has it: each value is serialized, then produced, and its future awaited after a flush."""

    async def send(count: int) -> None:
        source = values(count)
        while part := list(islice(source, ROUND)):
            futures = []
            for value in part:
                data = await serializer(value, SerializationContext(TOPIC, MessageField.VALUE))
                futures.append(await producer.produce(TOPIC, data))
            await producer.flush()
            await asyncio.gather(*futures)

    return send


def each(producer: Producer) -> Send:
    """`submit` for each record, with backpressure, and its future awaited after a flush."""

    async def send(count: int) -> None:
        source = values(count)
        while part := list(islice(source, ROUND)):
            futures = []
            for first in range(0, len(part), SLICE):
                futures += [producer.submit(TOPIC, value) for value in part[first : first + SLICE]]
                await producer.drain()
            await producer.flush()
            await asyncio.gather(*futures)

    return send


def many(producer: Producer) -> Send:
    """One call for some thousands of records."""

    async def send(count: int) -> None:
        source = values(count)
        while part := list(islice(source, ROUND)):
            (await producer.send_many(TOPIC, part)).raise_for_failures()

    return send


def serializing(serialize: Callable[[dict[str, Any]], Any]) -> Send:
    """Nothing is sent."""

    async def send(count: int) -> None:
        for value in values(count):
            made = serialize(value)
            if inspect.iscoroutine(made):
                await made

    return send


async def ways(stack: AsyncExitStack) -> dict[str, Send]:
    """Name -> how records are sent, or only serialized."""
    fake = stack.enter_context(FakeSchemaRegistry())
    servers = (await stack.enter_async_context(start("mock"))).bootstrap_servers
    registry = await stack.enter_async_context(SchemaRegistry(fake.url))
    client = await stack.enter_async_context(AsyncSchemaRegistryClient({"url": fake.url}))
    theirs = await AsyncAvroSerializer(client, SCHEMA, conf={"subject.name.strategy.type": "TOPIC"})
    ours = AvroSerializer(registry, SCHEMA)
    await ours.prepare(TOPIC)
    context = SerializationContext(TOPIC, MessageField.VALUE)
    value = next(values(1))
    assert ours.serialize(TOPIC, [], value) == await theirs(value, context), "both have to do the same work"

    settings: Any = {"acks": "all", "linger_ms": 5, "enable_idempotence": False}
    producer = AIOProducer({"bootstrap.servers": servers, **{n.replace("_", "."): v for n, v in settings.items()}})
    stack.push_async_callback(producer.close)
    own = await stack.enter_async_context(Producer(servers, value_serializer=ours, **settings))
    adapted = ConfluentSerializer(theirs)
    beside = await stack.enter_async_context(Producer(servers, value_serializer=adapted, **settings))
    return {
        PEER: peer(producer, theirs),
        "aioprod submit, AvroSerializer": each(own),
        "aioprod send_many, AvroSerializer": many(own),
        "aioprod send_many, AsyncAvroSerializer adapted": many(beside),
        "only serialized: AsyncAvroSerializer": serializing(lambda value: theirs(value, context)),
        "only serialized: AvroSerializer": serializing(lambda value: ours.serialize(TOPIC, [], value)),
    }


async def measure(rounds: int, records: int) -> list[tuple[object, ...]]:
    """Rows of the table: way, CPU per record, ratio to the peer in the same round."""
    found: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        sends = await ways(stack)
        for send in sends.values():
            await send(max(ROUND, records // 10))
        for _ in range(rounds):
            for way, send in sends.items():
                begun = time.process_time()
                await send(records)
                found.setdefault(way, []).append((time.process_time() - begun) / records * 1e6)
    return [
        (
            way,
            statistics.median(costs),
            statistics.median(cost / base for cost, base in zip(costs, found[PEER], strict=True)),
        )
        for way, costs in found.items()
    ]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.registry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=50_000, help="of each way in each round")
    given = parser.parse_args()
    rows = asyncio.run(measure(given.rounds, given.records))
    build = "compiled" if COMPILED else "interpreted"
    heading = f"CPU time of a record with a cached Avro schema, {build}"
    show([Table(heading, "", ("way", "us per record", "ratio"), rows)], sys.stdout)


if __name__ == "__main__":
    main()
