"""The clients under test with one interface: send a record to a partition, and report its outcome once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException, Message, libversion
from confluent_kafka import Producer as ConfluentProducer

import aioprod
from aioprod.errors import AioprodError, NotSentError, RejectedError, StillUnknownError, UnknownOutcomeError
from integration.chaos.ledger import Finding, Found, Outcome

__all__ = ["CLIENTS", "Client", "FindOut", "RefusedError", "Tell"]

FindOut = Callable[[float], Awaitable[Finding]]
"""Finds out in so many seconds what became of a record; the `seconds` of the finding are not filled in."""


class Tell(Protocol):
    """Hears the outcome of a record, its offset or -1, the error or an empty text, and how to find out more."""

    def __call__(self, outcome: Outcome, offset: int, error: str, find_out: FindOut | None = None) -> None: ...


_POLL_S = 0.005
_ERROR_LENGTH_MAX = 200


class RefusedError(Exception):
    """The call raised, so the record was not accepted."""


class Client(Protocol):
    """One producer."""

    def versions(self) -> dict[str, str]: ...
    async def start(self) -> None: ...
    async def send(self, topic: str, partition: int, value: bytes, tell: Tell) -> None:
        """Hand over one record; raises RefusedError when it is not accepted."""

    async def flush(self, timeout_s: float) -> None:
        """Wait until all outcomes are told, but no longer than `timeout_s`."""

    async def close(self) -> None: ...


def _text(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"[:_ERROR_LENGTH_MAX]


class Aioprod:
    """Every other record by `send_nowait` with a callback, the others by `submit`."""

    def __init__(self, bootstrap_servers: str, settings: dict[str, Any]) -> None:
        self._producer = aioprod.Producer(bootstrap_servers, on_error=lambda error, record: None, **settings)
        self._calls = 0

    def versions(self) -> dict[str, str]:
        return {"aioprod": aioprod.__version__, "compiled": str(aioprod.COMPILED)}

    async def start(self) -> None:
        await self._producer.start()

    async def send(self, topic: str, partition: int, value: bytes, tell: Tell) -> None:
        self._calls += 1
        try:
            if self._calls % 2:
                self._producer.send_nowait(
                    topic, value, partition=partition, on_delivery=lambda found, error: self._tell(tell, found, error)
                )
            else:
                future = self._producer.submit(topic, value, partition=partition)
                future.add_done_callback(lambda done: self._done(tell, done))
        except AioprodError as error:
            raise RefusedError(_text(error)) from error

    def _done(self, tell: Tell, future: asyncio.Future[aioprod.RecordMetadata]) -> None:
        error = future.exception()
        assert error is None or isinstance(error, AioprodError)
        self._tell(tell, None if error else future.result(), error)

    def _tell(self, tell: Tell, found: aioprod.RecordMetadata | None, error: AioprodError | None) -> None:
        if found is not None:
            tell(Outcome.DELIVERED, found.offset, "")
        elif isinstance(error, NotSentError):
            tell(Outcome.NOT_SENT, -1, _text(error))
        elif isinstance(error, RejectedError):
            tell(Outcome.REJECTED, -1, _text(error))
        else:
            assert isinstance(error, UnknownOutcomeError)
            tell(Outcome.UNKNOWN, -1, _text(error), partial(self._find_out, error))

    async def _find_out(self, error: UnknownOutcomeError, timeout_s: float) -> Finding:
        try:
            place = await self._producer.resolve(error, timeout_s)
        except StillUnknownError as still:
            return Finding(Found.OPEN, reason=still.reason, error=_text(still))
        return Finding(Found.ABSENT) if place is None else Finding(Found.STORED, place.offset)

    async def flush(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            await self._producer.flush(timeout_s)

    async def close(self) -> None:
        await self._producer.close(1)


class Aiokafka:
    """`send` in a task per partition, as it may wait for room."""

    def __init__(self, bootstrap_servers: str, settings: dict[str, Any]) -> None:
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **settings)

    def versions(self) -> dict[str, str]:
        return {"aiokafka": metadata.version("aiokafka")}

    async def start(self) -> None:
        await self._producer.start()

    async def send(self, topic: str, partition: int, value: bytes, tell: Tell) -> None:
        try:
            future = await self._producer.send(topic, value, partition=partition)
        except (KafkaError, AssertionError) as error:
            raise RefusedError(_text(error)) from error
        future.add_done_callback(lambda done: self._done(tell, done))

    def _done(self, tell: Tell, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            tell(Outcome.FAILED, -1, "cancelled")
        elif error := future.exception():
            tell(Outcome.FAILED, -1, _text(error))
        else:
            tell(Outcome.DELIVERED, future.result().offset, "")

    async def flush(self, timeout_s: float) -> None:
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(timeout_s):
                await self._producer.flush()

    async def close(self) -> None:
        await self._producer.stop()


class Confluent:
    """librdkafka's threads send; the loop asks every few milliseconds for callbacks."""

    def __init__(self, bootstrap_servers: str, settings: dict[str, Any]) -> None:
        self._producer = ConfluentProducer({"bootstrap.servers": bootstrap_servers, "log_level": 0, **settings})
        self._polling: asyncio.Task[None] | None = None

    def versions(self) -> dict[str, str]:
        return {"confluent-kafka": metadata.version("confluent-kafka"), "librdkafka": libversion()[0]}

    async def start(self) -> None:
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            self._producer.poll(0)
            await asyncio.sleep(_POLL_S)

    async def send(self, topic: str, partition: int, value: bytes, tell: Tell) -> None:
        def delivered(error: Any, message: Message) -> None:
            if error is None:
                tell(Outcome.DELIVERED, message.offset() or 0, "")
            else:
                tell(Outcome.FAILED, -1, f"{error.name()}: {error.str()}"[:_ERROR_LENGTH_MAX])

        try:
            self._producer.produce(topic, value, partition=partition, on_delivery=delivered)
        except (KafkaException, BufferError) as error:
            raise RefusedError(_text(error)) from error

    async def flush(self, timeout_s: float) -> None:
        await asyncio.to_thread(self._producer.flush, timeout_s)

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()


CLIENTS: dict[str, Callable[[str, dict[str, Any]], Client]] = {
    "aioprod": Aioprod,
    "aiokafka": Aiokafka,
    "confluent": Confluent,
}
