"""A real FastStream app, and each of its ways to publish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Self

import pytest
from faststream import FastStream
from faststream.exceptions import FeatureNotSupportedException
from faststream.kafka import KafkaBroker, KafkaMessage, KafkaResponse
from faststream.kafka.exceptions import BatchBufferOverflowException

__all__ = ["WAYS", "App", "Received"]

_PATIENCE_S: Final = 60.0


class Received(NamedTuple):
    """One record as a subscriber got it; headers without those that FastStream makes up anew for each record."""

    body: Any
    key: bytes | None
    partition: int
    headers: dict[str, str]
    timestamp: int | None


class App:
    """A service that reads `out` and `answers`, and turns what it gets in `into` and `many` into records of `out`."""

    def __init__(self, servers: str, topics: dict[str, str], **options: Any) -> None:
        self.topics = topics
        self.broker = KafkaBroker(servers, **options)
        self.app = FastStream(self.broker)
        self.received: asyncio.Queue[Received] = asyncio.Queue()
        self.answers: asyncio.Queue[Received] = asyncio.Queue()
        self.single = self.broker.publisher(topics["out"], key=b"of the publisher", headers={"from": "publisher"})
        self.batch = self.broker.publisher(topics["out"], batch=True, headers={"from": "batch"})
        self.flushing = self.broker.publisher(topics["out"], autoflush=True)
        self._subscribe(topics["out"], self.received)
        self._subscribe(topics["answers"], self.answers)
        self._transform()

    def _subscribe(self, topic: str, queue: asyncio.Queue[Received]) -> None:
        @self.broker.subscriber(topic, auto_offset_reset="earliest")
        async def receive(body: Any, message: KafkaMessage) -> None:
            raw: Any = message.raw_message
            headers = {name: value for name, value in message.headers.items() if name != "correlation_id"}
            timestamp = raw.timestamp if raw.timestamp < 10_000_000_000 else None  # Those that a test gave.
            await queue.put(Received(body, raw.key, raw.partition, headers, timestamp))

    def _transform(self) -> None:
        @self.broker.subscriber(self.topics["into"], auto_offset_reset="earliest")
        @self.broker.publisher(self.topics["out"], headers={"from": "decorator"})
        async def transform(body: str) -> Any:
            return KafkaResponse(f"{body}!", key=b"of the response") if body == "keyed" else f"{body}!"

        @self.broker.subscriber(self.topics["many"], auto_offset_reset="earliest")
        @self.broker.publisher(self.topics["out"], batch=True)
        async def split(body: str) -> tuple[str, ...]:
            return tuple(body)

    async def __aenter__(self) -> Self:
        await self.app.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.stop()

    async def next(self, queue: asyncio.Queue[Received] | None = None) -> Received:
        """The next record that came back."""
        async with asyncio.timeout(_PATIENCE_S):
            return await (queue or self.received).get()


Way = Callable[[App], Awaitable[None]]
WAYS: Final[dict[str, Way]] = {}
TEXT: Final = {"content-type": "text/plain"}


def way(check: Way) -> Way:
    """One of FastStream's ways to publish, with what comes back: the same with either producer."""
    WAYS[check.__name__] = check
    return check


@way
async def broker_publish(app: App) -> None:
    stored = await app.broker.publish("text", app.topics["out"], partition=0)
    assert (stored.topic, stored.partition, stored.offset, stored.timestamp_type) == (app.topics["out"], 0, 0, 0)
    assert await app.next() == Received("text", None, 0, TEXT, None)


@way
async def broker_publish_with_all_arguments(app: App) -> None:
    await app.broker.publish(
        {"a": 1},
        app.topics["out"],
        key=b"key",
        partition=1,
        timestamp_ms=1234,
        headers={"name": "value"},
        correlation_id="abc",
        reply_to="elsewhere",
    )
    headers = {"content-type": "application/json", "name": "value", "reply_to": "elsewhere"}
    assert await app.next() == Received({"a": 1}, b"key", 1, headers, 1234)


@way
async def broker_publish_no_confirm(app: App) -> None:
    future = await app.broker.publish(b"bytes", app.topics["out"], partition=0, no_confirm=True)
    assert isinstance(future, asyncio.Future)
    assert (await future).offset == 0
    assert (await app.next()).body == b"bytes"


@way
async def a_tombstone(app: App) -> None:
    await app.broker.publish(None, app.topics["out"], key=b"deleted", partition=0)
    assert (await app.next()).key == b"deleted"


@way
async def keys_decide_the_partition(app: App) -> None:
    stored = [await app.broker.publish("text", app.topics["out"], key=b"customer %d" % number) for number in range(20)]
    # By murmur2, as Java's clients.
    assert [place.partition for place in stored] == [0, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0]


@way
async def broker_publish_batch(app: App) -> None:
    stored = await app.broker.publish_batch("a", {"b": 2}, topic=app.topics["out"], partition=1, headers={"n": "v"})
    assert (stored.topic, stored.partition, stored.offset, stored.timestamp) == (app.topics["out"], 1, 0, -1)
    assert await app.next() == Received("a", None, 1, {**TEXT, "n": "v"}, None)
    assert (await app.next()).body == {"b": 2}


@way
async def broker_publish_batch_no_confirm(app: App) -> None:
    future = await app.broker.publish_batch("a", "b", topic=app.topics["out"], timestamp_ms=77, no_confirm=True)
    stored = await future
    assert (stored.offset, stored.partition in (0, 1)) == (0, True)
    assert [(await app.next()).timestamp for _ in range(2)] == [77, 77]


@way
async def a_batch_that_is_too_large(app: App) -> None:
    with pytest.raises(BatchBufferOverflowException):
        await app.broker.publish_batch(*["x" * 1000] * 20, topic=app.topics["out"], partition=0)


@way
async def publisher_publish(app: App) -> None:
    await app.single.publish("text", partition=0)
    assert await app.next() == Received("text", b"of the publisher", 0, {**TEXT, "from": "publisher"}, None)


@way
async def batch_publisher_publish(app: App) -> None:
    await app.batch.publish("a", "b", partition=0)
    assert [(await app.next())[:4] for _ in range(2)] == [(body, None, 0, {**TEXT, "from": "batch"}) for body in "ab"]


@way
async def publisher_with_autoflush(app: App) -> None:
    await app.flushing.publish("text")
    assert (await app.next()).body == "text"


@way
async def publisher_flush(app: App) -> None:
    future = await app.single.publish("text", no_confirm=True)
    await app.single.flush()
    assert future.done()


@way
async def publisher_decorator(app: App) -> None:
    await app.broker.publish("text", app.topics["into"])
    received = await app.next()
    assert (received.body, received.key, received.headers) == ("text!", None, {**TEXT, "from": "decorator"})


@way
async def publisher_decorator_with_a_response(app: App) -> None:
    await app.broker.publish("keyed", app.topics["into"])
    received = await app.next()
    assert (received.body, received.key) == ("keyed!", b"of the response")


@way
async def batch_publisher_decorator(app: App) -> None:
    await app.broker.publish("abc", app.topics["many"])
    assert [(await app.next()).body for _ in range(3)] == ["a", "b", "c"]


@way
async def reply_to(app: App) -> None:
    await app.broker.publish("text", app.topics["into"], reply_to=app.topics["answers"])
    assert (await app.next(app.answers)).body == "text!"


@way
async def request(app: App) -> None:
    with pytest.raises(FeatureNotSupportedException):
        await app.broker.request("text", app.topics["into"])


@way
async def ping(app: App) -> None:
    assert await app.broker.ping(timeout=_PATIENCE_S)
