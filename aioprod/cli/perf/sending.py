"""A load on aioprod's producer, in each style."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from aioprod.cli.perf.load import Load, Pace, Payload
from aioprod.cli.perf.meter import LoopGap, Meter, RoundTrip
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, BufferFullError, DeliveryError
from aioprod.producer import Producer
from aioprod.record_metadata import RecordMetadata
from aioprod.types import SendResult

__all__ = ["send_load"]

_SLICE: Final = 500
"""The records between two turns of the loop."""
_TURN_S: Final = 0.001
"""The shortest wait at a rate: records that are due meanwhile go together."""


async def send_load(config: ProducerConfig, load: Load, payload: Payload, meter: Meter, *, first: bool = False) -> None:
    """Send the load, and wait for all outcomes; what the meter has is true, also when this is cancelled or raises.

    `first` sends one record before, which does not count, so that connections are there. A record that fails is
    counted. Raises what concerns all of them: UnknownTopicError, AuthorizationError, ...
    """
    async with Producer(config=config) as producer:
        await producer.partitions_for(load.topic)
        if load.style == "send_arrow":
            import_module("pyarrow")  # Now, as that takes longer than many records.
        if first:
            await producer.send(load.topic, b"")
        gap = LoopGap()
        meter.begin()
        try:
            await _Sender(producer, load, payload, meter).run()
        finally:
            meter.gap_ms = gap.stop()
            meter.end()
            meter.round_trip = _round_trip(producer)


def _round_trip(producer: Producer) -> RoundTrip:
    found = producer.metrics()
    return RoundTrip(
        request_p50_ms=round(found["request_latency_p50"], 3),
        batch_bytes_avg=round(found["batch_size_avg"]),
        full_ratio=round(found["in_flight_full_ratio"], 3),
    )


class _Sender:
    def __init__(self, producer: Producer, load: Load, payload: Payload, meter: Meter) -> None:
        self._producer = producer
        self._load = load
        self._payload = payload
        self._meter = meter
        self._clock = meter.clock
        self._pace = Pace(load, meter.began)

    async def run(self) -> None:
        styles: Mapping[str, Callable[[], Awaitable[None]]] = {
            "send_nowait": self._send_nowait,
            "send": self._send,
            "send_many": self._send_many,
            "send_arrow": self._send_arrow,
        }
        await styles[self._load.style]()
        await self._producer.flush()

    async def _due(self, at_most: int) -> int:
        """How many records to send now, after waiting until some are due; 0 at the end."""
        while not self._pace.is_over(now := self._clock()):
            if count := self._pace.take(now, at_most):
                return count
            await asyncio.sleep(max(_TURN_S, self._pace.wait_s(now)))
        return 0

    # --- one record a call

    async def _send_nowait(self) -> None:
        producer, clock, done = self._producer, self._clock, self._done
        topic = self._load.topic
        while count := await self._due(_SLICE):
            for key, value in self._payload.pairs(count):
                on_delivery = partial(done, clock(), _size(key, value))
                while True:
                    try:
                        producer.send_nowait(topic, value, key=key, on_delivery=on_delivery)
                        break
                    except BufferFullError:
                        await producer.drain()
            await producer.drain()

    def _done(self, start: float, size: int, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        if error is None:
            self._meter.note(start, size)
        else:
            self._meter.note_failed(error)

    async def _send(self) -> None:
        free = asyncio.Semaphore(self._load.tasks)
        try:
            async with asyncio.TaskGroup() as tasks:
                while count := await self._due(self._load.tasks):
                    for key, value in self._payload.pairs(count):
                        await free.acquire()
                        tasks.create_task(self._send_one(key, value)).add_done_callback(lambda _: free.release())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None  # The first one has ended the others.

    async def _send_one(self, key: bytes | None, value: bytes) -> None:
        start = self._clock()
        try:
            await self._producer.send(self._load.topic, value, key=key)
        except DeliveryError as error:
            self._meter.note_failed(error)
        else:
            self._meter.note(start, _size(key, value))

    # --- many records a call

    async def _send_many(self) -> None:
        while count := await self._due(self._load.chunk):
            keys, values = self._payload.keys(count), self._payload.values(count)
            await self._together(self._producer.send_many(self._load.topic, values, keys=keys), keys, values)

    async def _send_arrow(self) -> None:
        import pyarrow as pa

        while count := await self._due(self._load.chunk):
            keys, values = self._payload.keys(count), self._payload.values(count)
            columns: dict[str, Any] = {"value": pa.array(values, pa.binary())}
            if keys is not None:
                columns["key"] = pa.array(keys, pa.binary())
            batch = pa.record_batch(columns)
            await self._together(self._producer.send_arrow(batch, topic=self._load.topic), keys, values)

    async def _together(self, call: Awaitable[SendResult], keys: list[bytes] | None, values: list[bytes]) -> None:
        """Await a call; the latency of its records is that of the call."""
        start = self._clock()
        try:
            result = await call
        except DeliveryError as error:
            self._meter.note_failed(error, len(values))
            return
        size = sum(map(len, values)) + sum(map(len, keys or ()))
        for index, failure in result.failures:
            self._meter.note_failed(failure)
            size -= _size(None if keys is None else keys[index], values[index])
        if delivered := len(values) - len(result.failures):
            self._meter.note(start, size, delivered)


def _size(key: bytes | None, value: bytes) -> int:
    return len(value) + (0 if key is None else len(key))
