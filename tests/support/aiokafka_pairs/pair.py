"""A documented behaviour of aiokafka's producer, as a test that runs with aiokafka and with aioprod in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import aiokafka

from aioprod.compat.aiokafka import AIOKafkaProducer
from aioprod.reader import read
from aioprod.types import ConsumedRecord

__all__ = ["CLIENTS", "Behaviour", "MakeTopic", "Pair", "behaviour"]

Isolation = Literal["read_uncommitted", "read_committed"]

CLIENTS: dict[str, type[Any]] = {"aiokafka": aiokafka.AIOKafkaProducer, "aioprod": AIOKafkaProducer}


class MakeTopic(Protocol):
    """Create a topic with a name of its own; `config` are Kafka's settings with _ for the dots."""

    async def __call__(self, partitions: int = 1, **config: object) -> str: ...


class Pair:
    """What a behaviour is tested with: one of the two classes, brokers, and topics.

    The brokers create no topics by themselves.
    """

    def __init__(self, client: type[Any], servers: str, make_topic: MakeTopic) -> None:
        self.client = client
        self.is_ours = client is AIOKafkaProducer
        self.servers = servers
        self.topic = make_topic

    def make(self, **options: Any) -> Any:
        """A producer for these brokers."""
        return self.client(**{"bootstrap_servers": self.servers, **options})

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Any]:
        """A producer that runs inside the block."""
        async with self.make(**options) as producer:
            yield producer

    def either(self, aiokafka: Any, aioprod: Any) -> Any:
        """What the two do differently, for a behaviour that names its difference."""
        return aioprod if self.is_ours else aiokafka

    async def records(self, topic: str, isolation: Isolation = "read_uncommitted") -> list[ConsumedRecord]:
        """The records of a topic, by partition and offset."""
        found = [record async for record in read(topic, bootstrap_servers=self.servers, isolation_level=isolation)]
        return sorted(found, key=lambda record: (record.partition, record.offset))

    async def values(self, topic: str, isolation: Isolation = "read_uncommitted") -> list[bytes | None]:
        """Their values."""
        return [record.value for record in await self.records(topic, isolation)]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One test; `differs` names the row of docs/migrating-aiokafka.md that says what is different and why, or is None.

    `on_fakes`, `on_real`: these brokers have what it needs.
    """

    check: Callable[[Pair], Awaitable[None]]
    differs: str | None
    on_fakes: bool
    on_real: bool

    def __str__(self) -> str:
        return self.check.__name__


def behaviour(
    *, differs: str | None = None, on_fakes: bool = True, on_real: bool = True
) -> Callable[[Callable[[Pair], Awaitable[None]]], Behaviour]:
    """Make a coroutine function that takes a `Pair` a `Behaviour`."""
    return lambda check: Behaviour(check, differs, on_fakes, on_real)
