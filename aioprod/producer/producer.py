"""The facade: what users call."""

from __future__ import annotations

import asyncio
import time
from asyncio import events
from collections.abc import AsyncIterable, Callable, Iterable
from types import TracebackType
from typing import Any, Self

from aioprod.cluster import Cluster, PartitionInfo
from aioprod.config import ProducerConfig
from aioprod.core.batch import Batch, ParkedRecord
from aioprod.errors import AioprodError, BufferFullError, InvalidRecordError
from aioprod.producer.engine import Engine
from aioprod.producer.preparation import Prepared, as_bytes, callback, partition_index, seconds, timestamp_ms
from aioprod.producer.results import DeliveryFuture
from aioprod.producer.send_arrow import send_arrow
from aioprod.producer.send_many import send_many
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.types import (
    Buffered,
    DeliveryCallback,
    DeliveryReport,
    ErrorCallback,
    Headers,
    ProducerRecord,
    RecordMetadata,
    SendResult,
    Timestamp,
)

__all__ = ["Producer"]


class Producer:
    """Sends records to Kafka from one event loop; use it as `async with Producer("host:9092") as producer`.

    `options` are fields of `ProducerConfig` (Java's names in snake_case, `linger_ms=5`); they win over those of
    `config`. Serializers, partitioner and interceptors may be objects, classes or names. `on_error(error, record)` is
    called for each failed record that nobody waits for; by default a warning is logged for each failed batch.
    Raises ConfigError. Touches no network before `start()`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: ProducerConfig | None = None,
        key_serializer: Any = None,
        value_serializer: Any = None,
        partitioner: Any = None,
        interceptors: Any = (),
        on_error: ErrorCallback | None = None,
        **options: Any,
    ) -> None:
        named = {
            "bootstrap_servers": bootstrap_servers,
            "key_serializer": key_serializer,
            "value_serializer": value_serializer,
            "partitioner_class": partitioner,
            "interceptor_classes": _several(interceptors) or None,
        }
        options |= {name: value for name, value in named.items() if value is not None}
        self.config = ProducerConfig.from_options(**options) if config is None else config.replace(**options)
        self._engine = Engine(self.config, callback("on_error", on_error))
        self._preparation = self._engine.preparation
        self._plain = self._preparation.plain
        self._clock: Callable[[], float] = time.monotonic
        self._wall_clock: Callable[[], float] = time.time

    # --- life

    async def start(self) -> None:
        """Connect to the cluster, and be ready to send.

        Raises MetadataTimeoutError when no bootstrap server answers within `max.block.ms`: it names each address and
        what went wrong there. Raises UsageError when it was started before.
        """
        await self._engine.start()

    async def close(self, timeout: float | None = None) -> DeliveryReport:
        """Deliver what was accepted, for at most `timeout` seconds, fail the rest, and release everything.

        None waits as long as the delivery timeouts of the records allow. The report counts what became of the records
        accepted since `start()`, and holds the errors of those that this call failed. Cancelling it fails the rest at
        once. A second call returns the same report.
        """
        return await self._engine.close(seconds("close", timeout))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- one record

    async def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged.

        Waits up to `max.block.ms` for memory and for the topic to be known. Cancelled before its batch is sent, the
        record is taken back; after that it goes on, and its outcome goes to the interceptors, and to `on_error` if it
        fails. Raises InvalidRecordError and its subclasses, BufferFullError, MetadataTimeoutError, AuthorizationError,
        ProducerClosedError or UsageError while the record is not accepted, and a DeliveryError after that.
        """
        engine = self._engine
        future: asyncio.Future[RecordMetadata] = events.get_running_loop().create_future()
        if self._plain:
            prepared = self._prepare(topic, value, key, partition, headers, timestamp)
        else:
            prepared = await self._transformed(topic, value, key, partition, headers, timestamp)
        try:
            owner = self._append(prepared, future)
        except BufferFullError:
            owner = await self._append_in_turn(prepared, future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                engine.unwatched(future, prepared)
            else:
                engine.withdraw(future, owner)
            raise

    def submit(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Accept one record at once; the future has its outcome.

        Await futures one by one, or after `flush()`: `asyncio.gather` alone costs 2 us a future. Cancelling the future
        before its batch is sent takes the record back. Raises what `send` raises while a record is not accepted; what
        concerns an unknown topic comes through the future, as NotSentError.
        """
        prepared = self._prepare(topic, value, key, partition, headers, timestamp)
        future = DeliveryFuture(loop=self._engine.loop)
        future.unseen = None
        future.withdraw = self._engine.withdraw
        future.owner = self._append(prepared, future)
        return future

    def send_nowait(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Accept one record at once, and call `on_delivery(metadata, error)` with its outcome: one of them is None.

        Raises what `submit` raises. `await drain()` waits for room after BufferFullError.
        """
        waiter: Any = on_delivery
        if waiter is not None and not callable(waiter):
            callback("on_delivery", waiter)
        self._append(self._prepare(topic, value, key, partition, headers, timestamp), waiter)

    # --- many records

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        headers: Headers | Iterable[Headers | None] | None = None,
        timestamps: Timestamp | Iterable[Timestamp | None] | None = None,
    ) -> SendResult:
        """Send all `values`, waiting for room as needed, and wait until each has its outcome.

        `keys` has one per value; `headers` and `timestamps` are one for all or one per value. What concerns the call
        raises (InvalidRecordError, MetadataTimeoutError, ...); faults of single records are in `failures` of the
        result, with their index. A call that is cancelled stops; what it had accepted goes on.
        """
        self._engine.guard.check()
        return await send_many(self._engine, topic, values, keys, partition, headers, timestamps)

    async def send_arrow(self, batch: Any, *, topic: str | None = None) -> SendResult:
        """Send the rows of Arrow data, waiting for room as needed, and wait until each has its outcome.

        `batch` is a record batch, a table or a data frame of any library with the Arrow PyCapsule interface. Its
        columns are `value` and, if wanted, `key`, `topic` (unless `topic` is given for all rows), `partition`,
        `headers` and `timestamp`; strings and bytes go as they are, no serializer is asked. Raises
        InvalidRecordError for data without a value, with other columns or of other types; what concerns the call
        raises as with `send_many`, and faults of single rows are in `failures` of the result, with their index.
        """
        self._engine.guard.check()
        return await send_arrow(self._engine, batch, topic)

    # --- waiting

    async def drain(self) -> None:
        """Wait until there is room again; returns soon when there is. Lets the event loop run in any case."""
        self._engine.guard.check()
        await self._engine.room.drain()

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything without lingering, and wait for the outcome of everything accepted before this call.

        Raises FlushTimeoutError after `timeout` seconds; the records go on.
        """
        self._engine.guard.check()
        await self._engine.flush(seconds("flush", timeout))

    # --- what is known

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by index; waits up to `max.block.ms` for the topic to be known.

        Raises MetadataTimeoutError, InvalidTopicError, UnknownTopicError or AuthorizationError.
        """
        self._engine.guard.check()
        return await self._engine.partitions_for(topic)

    def add_metadata_listener(self, listener: Callable[[Cluster], object]) -> None:
        """Call `listener` with each new snapshot of the cluster."""
        self._engine.metadata_listeners.append(listener)

    def metrics(self) -> dict[str, float]:
        """The present value of every metric, by name."""
        return self._engine.metrics_snapshot()

    @property
    def buffered(self) -> Buffered:
        """Accepted records whose outcome is not known yet, and their encoded bytes."""
        return self._engine.buffered()

    # --- the way in

    def _prepare(
        self,
        topic: str | ProducerRecord,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp: Timestamp | None,
    ) -> Prepared:
        """Turn what the user gave into what the accumulator takes, without waiting for anything."""
        self._engine.guard.check()
        if not self._plain or type(topic) is not str:
            record = _record(topic, value, key, partition, headers, timestamp)
            return self._engine.prepare(record)
        return (
            topic,
            key if key is None or type(key) is bytes else as_bytes("key", topic, key),
            value if value is None or type(value) is bytes else as_bytes("value", topic, value),
            NO_HEADERS if headers is None else encode_headers(headers),
            -1 if partition is None else partition_index(topic, partition),
            None if timestamp is None else timestamp_ms(topic, timestamp),
        )

    async def _transformed(
        self,
        topic: str | ProducerRecord,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp: Timestamp | None,
    ) -> Prepared:
        self._engine.guard.check()
        prepared = await self._engine.prepare_async(_record(topic, value, key, partition, headers, timestamp))
        self._engine.guard.check()
        return prepared

    def _append(self, prepared: Prepared, waiter: Any, granted: bool = False) -> Batch | ParkedRecord:
        topic, key, value, headers, partition, timestamp = prepared
        if timestamp is None:
            timestamp = int(self._wall_clock() * 1000)
        try:
            return self._engine.accumulator.append(
                topic, key, value, headers, partition, timestamp, waiter, self._clock(), granted
            )
        except AioprodError as error:
            self._engine.refused(prepared, error, will_wait=type(waiter) is asyncio.Future)
            raise

    async def _append_in_turn(self, prepared: Prepared, waiter: Any) -> Batch | ParkedRecord:
        """Wait for room, in order of arrival, then append."""
        engine = self._engine
        deadline = self._clock() + engine.max_block_s
        request = await engine.reserve(prepared)
        try:
            await engine.topics.known(prepared[0], deadline - self._clock())
            engine.guard.check()
            engine.accumulator.budget.leave(request)
            return self._append(prepared, waiter, granted=True)
        finally:
            engine.room.give_back(request)


def _several(given: Any) -> tuple[Any, ...]:
    """One object, class or name, or an iterable of them."""
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, (str, type)) else (given,)


def _record(
    topic: str | ProducerRecord,
    value: Any,
    key: Any,
    partition: int | None,
    headers: Headers | None,
    timestamp: Timestamp | None,
) -> ProducerRecord:
    if not isinstance(topic, ProducerRecord):
        return ProducerRecord(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)
    if any(given is not None for given in (value, key, partition, headers, timestamp)):
        raise InvalidRecordError("A ProducerRecord says everything itself: give no value, key or options beside it.")
    return topic
