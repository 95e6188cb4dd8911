"""All calls of a producer, compiled. Users import `Producer` (`producer.py`), which derives from `ProducerCalls`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aioprod._short_reprs import client_repr
from aioprod._words import counted
from aioprod.cluster import Cluster, PartitionInfo
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, BufferFullError
from aioprod.producer import native
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.bulk.send_many import send_many
from aioprod.producer.callbacks import DeliveryCallbacks
from aioprod.producer.clock import Clock
from aioprod.producer.delivery_future import DeliveryFuture
from aioprod.producer.engine import Engine
from aioprod.producer.environment import Environment
from aioprod.producer.guard import State
from aioprod.producer.health import Health, health_of
from aioprod.producer.logs.milestones import PRODUCER, Facade
from aioprod.producer.preparation import Prepared, as_bytes, partition_index, record_of, seconds
from aioprod.producer.transactions.calls import TransactionalCalls
from aioprod.producer.unclosed import dropped
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.types import (
    NO_VALUE,
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

if TYPE_CHECKING:
    from aioprod.metrics import Family
    from aioprod.producer.transactions.participant import SharedTransaction

__all__ = ["ProducerCalls"]


class ProducerCalls(TransactionalCalls):
    """All that users call on a `Producer`, over the `Engine`. Compiled, so it has no arguments of its own for users."""

    def __init__(
        self,
        config: ProducerConfig,
        on_error: ErrorCallback | None,
        shared: SharedTransaction | None = None,
        facade: Facade = PRODUCER,
    ) -> None:
        self.config = config
        self._engine = Engine(config, on_error, shared, facade)
        self._guard = self._engine.guard
        self._is_plain = self._engine.preparation.plain
        self._callbacks = DeliveryCallbacks()
        self._checked: Any = None
        # Parts that each record needs, as attributes of their C type. From start() on: before, the guard raises.
        self._clock: Clock
        self._accumulator: Accumulator
        self._new_future: Callable[[], asyncio.Future[RecordMetadata]]
        self._in_loop: dict[str, asyncio.AbstractEventLoop]

    def __repr__(self) -> str:
        held = self.buffered
        waiting = f", {counted(held.records, 'record')} ({held.bytes} B) waiting" if held.records else ""
        what = f"{self._guard.state_in_words}{waiting}"
        return client_repr("Producer", self.config.client_id, self.config.bootstrap_servers, what)

    if not TYPE_CHECKING:

        def __len__(self):
            raise TypeError("Producer has no len(): producer.buffered has how many records wait for their outcome.")

        def __bool__(self):
            return True  # Else `if producer:` would call __len__.

    # --- life

    async def start(self) -> None:
        """Connect to the cluster, and be ready to send.

        Raises MetadataTimeoutError when no bootstrap server answers within `max.block.ms`: it names each address and
        what went wrong there. Raises UsageError when it was started before.
        """
        await self._start_in(Environment())

    async def _start_in(self, environment: Environment) -> None:
        """Start with another clock, random numbers and threads, as the simulation does."""
        await self._engine.start(environment)
        parts = self._engine.parts
        self._clock, self._accumulator = parts.environment.clock, parts.accumulator
        self._new_future = parts.loop.create_future
        self._in_loop = {"loop": parts.loop}

    async def close(self, timeout: float | None = None) -> DeliveryReport:
        """Deliver what was accepted, for at most `timeout` seconds, fail the rest, and release everything.

        None is `close.timeout.ms`; without that, and for `math.inf`, it waits as long as the delivery timeouts of the
        records allow. The log says after half a second, and then every ten, what is waited for. The report counts what
        became of the records accepted since `start()`, and holds the errors of those that this call failed. Cancelling
        it fails the rest at once. A second call returns the same report.
        """
        self._checked = None
        return await self._engine.close(seconds("close", timeout))

    async def reload_credentials(self) -> None:
        """Read certificates and passwords again, fetch another token, and have new connections take over.

        One broker after the other: records wait until the new connection is accepted and what is on the way on the old
        one is answered, keep their order, and none fails because of it. Raises ConfigError, AuthenticationError or
        BrokerConnectionError: why there are no new credentials, or why a broker does not accept them; the old
        connections stay in use then. UsageError before `start()` and after `close()`.
        """
        self._guard.check_running()
        await self._engine.parts.client.reload_credentials()

    def __del__(self) -> None:
        # Nothing in the loop refers to the producer: this is called when its users let go of it. At the end of the
        # interpreter Python sets the globals of compiled modules to None first.
        engine = getattr(self, "_engine", None)
        if engine is not None and dropped is not None:
            dropped(engine, self)

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
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged.

        `value` has to be given; None is a tombstone. `topic` may be a `ProducerRecord`, which says all itself. Waits up
        to `max.block.ms` for memory and for the topic to be known. Cancelled before its batch is sent, the record is
        withdrawn; after that it is still delivered: the interceptors get its outcome, and `on_error` its failure.
        Raises InvalidRecordError and its subclasses, BufferFullError, MetadataTimeoutError, AuthorizationError,
        ProducerClosedError or UsageError while the record is not accepted, and a DeliveryError after that.
        """
        self._guard.check()
        future = self._new_future()
        prepared: Prepared | None = None
        owner: Batch | ParkedRecord
        try:
            if self._is_plain and type(topic) is str:
                owner = self._take(topic, value, key, partition, headers, timestamp, future)
            else:
                prepared = await self._transformed(topic, value, key, partition, headers, timestamp)
                owner = self._append(prepared, future)
        except BufferFullError:
            if prepared is None:
                prepared = self._engine.preparation.accept(record_of(topic, value, key, partition, headers, timestamp))
            owner = await self._append_in_turn(prepared, future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                if prepared is None:
                    prepared = self._engine.preparation.accept(
                        record_of(topic, value, key, partition, headers, timestamp)
                    )
                self._engine.unwatched(future, prepared)
            else:
                self._engine.parts.withdraw(future, owner)
            raise

    def submit(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
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
        self._guard.check()
        future = native.made(DeliveryFuture, self._in_loop)
        if self._is_plain and type(topic) is str:
            future.owner = self._take(topic, value, key, partition, headers, timestamp, future)
        else:
            future.owner = self._append(
                self._engine.preparation.accept(record_of(topic, value, key, partition, headers, timestamp)), future
            )
        return future

    def send_nowait(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Accept one record at once, and call `on_delivery(metadata, error)`, in this order, with its outcome.

        One of the two is None. Raises what `submit` raises, and UsageError for an `on_delivery` that can't be called
        so, would have to be awaited, or names its first argument as an error. `await drain()` waits for room after
        BufferFullError.
        """
        self._guard.check()
        waiter: Any = on_delivery
        if waiter is not self._checked and waiter is not None:
            self._callbacks.check(waiter)
            self._checked = waiter
        if self._is_plain and type(topic) is str:
            self._take(topic, value, key, partition, headers, timestamp, waiter)
        else:
            self._append(
                self._engine.preparation.accept(record_of(topic, value, key, partition, headers, timestamp)), waiter
            )

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
        raises (InvalidRecordError, MetadataTimeoutError, ...), and so does an error that all records have, such
        as a SerializationError. Faults of single records are in `failures` of the result, with their index:
        `result.raise_for_failures()` raises them, and a result whose failures were not read logs a warning when it
        is dropped. A cancelled call stops; the records that it had accepted are still delivered.
        """
        self._guard.check()
        return await send_many(self._engine, topic, values, keys, partition, headers, timestamps)

    async def send_arrow(self, batch: Any, *, topic: str | None = None) -> SendResult:
        """Send the rows of Arrow data, waiting for room as needed, and wait until each has its outcome.

        `batch` is a record batch, a table or a data frame of any library with the Arrow PyCapsule interface. Its
        columns are `value` and, if wanted, `key`, `topic` (unless `topic` is given for all rows), `partition`,
        `headers` and `timestamp`; strings and bytes go as they are, no serializer is called. Raises
        InvalidRecordError for data without a value, with other columns or of other types; what concerns the call
        or all its rows raises as with `send_many`, and faults of single rows are in `failures` of the result.
        """
        self._guard.check()
        from aioprod.producer.bulk.send_arrow import send_arrow  # With ctypes and all that knows Arrow's memory.

        return await send_arrow(self._engine, batch, topic)

    # --- waiting

    async def drain(self) -> None:
        """Wait until half of `buffer.memory` is free; returns soon when it is. Lets the event loop run in any case.

        If you await it every few hundred `send_nowait()` or `submit()` calls, before they fill that half, you never
        see BufferFullError.
        """
        self._guard.check_running()
        await self._engine.parts.memory_waiters.drain()

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything without lingering, and wait for the outcome of everything accepted before this call.

        Raises FlushTimeoutError after `timeout` seconds; the records stay accepted.
        """
        self._guard.check_running()
        await self._engine.flush(seconds("flush", timeout))

    # --- what is known

    def explain(self, topic: str, partition: int) -> str:
        """Why records of a partition are not moving, in plain sentences with numbers, for people and for logs.

        It costs a walk over all batches that are held. Raises UsageError and ProducerClosedError as `send` does, but
        works while the producer is being closed.
        """
        if self._guard.state is not State.CLOSING:
            self._guard.check_running()
        return self._engine.parts.outcomes.explainer.explain(topic, partition)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by index; waits up to `max.block.ms` for the topic to be known.

        Raises MetadataTimeoutError, InvalidTopicError, UnknownTopicError or AuthorizationError.
        """
        self._guard.check_running()
        return await self._engine.partitions_for(topic)

    def add_metadata_listener(self, listener: Callable[[Cluster], object]) -> None:
        """Call `listener` with each new snapshot of the cluster."""
        self._engine.metadata_listeners.append(listener)

    def metrics(self) -> dict[str, float]:
        """The present value of every metric, by name."""
        return self._engine.metrics_snapshot()

    def metric_families(self) -> list[Family]:
        """Every metric in base units, with labels and whole histograms: what monitoring systems collect.

        docs/metrics.md lists them. Names, kinds and labels are stable. Works in every state of the producer, in the
        thread of its event loop.
        """
        return self._engine.metric_families()

    @property
    def client_id(self) -> str:
        """The name of this producer at the brokers: `client.id`, or that of all that have none."""
        return self._engine.client_id

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the producer lives in; None before it is started."""
        return self._engine.guard.loop

    def health(self) -> Health:
        """What the probes of a service need: which brokers are connected, what waits and since when, the last error.

        Costs microseconds. Works in every state of the producer, in the thread of its event loop.
        """
        return health_of(self._engine)

    @property
    def buffered(self) -> Buffered:
        """Accepted records whose outcome is not known yet, and their encoded bytes."""
        return self._engine.buffered()

    # --- the way in

    def _take(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp: Timestamp | None,
        waiter: Any,
    ) -> Batch | ParkedRecord:
        """Accept a record that no interceptor and no serializer changes."""
        if key is not None and type(key) is not bytes:
            key = as_bytes("key", topic, key)
        if value is not None and type(value) is not bytes:
            value = as_bytes("value", topic, value)
        encoded = NO_HEADERS if headers is None else encode_headers(headers)
        index = -1 if partition is None else partition_index(topic, partition)
        now_ns = self._clock.now_ns()
        if timestamp is None:
            at_ms = self._clock.timestamp_ms(now_ns)
        else:
            at_ms = self._engine.preparation.timestamp_ms(topic, timestamp)
        return self._accumulator.append(topic, key, value, encoded, index, at_ms, waiter, now_ns / 1e9)

    async def _transformed(
        self,
        topic: str | ProducerRecord,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp: Timestamp | None,
    ) -> Prepared:
        transaction = self._guard.transaction
        prepared = await self._engine.preparation.accept_async(
            record_of(topic, value, key, partition, headers, timestamp)
        )
        self._guard.check()
        self._guard.check_transaction(transaction)
        return prepared

    def _append(self, prepared: Prepared, waiter: Any, granted: int = 0) -> Batch | ParkedRecord:
        """Accept a record that went through interceptors and serializers."""
        topic, key, value, headers, partition, timestamp = prepared
        now_ns = self._clock.now_ns()
        if timestamp is None:
            timestamp = self._clock.timestamp_ms(now_ns)
        try:
            return self._accumulator.append(
                topic, key, value, headers, partition, timestamp, waiter, now_ns / 1e9, granted
            )
        except AioprodError as error:
            if not isinstance(error, BufferFullError) or type(waiter) is not asyncio.Future:
                self._engine.preparation.report_not_accepted(topic, partition, error)
            raise

    async def _append_in_turn(self, prepared: Prepared, waiter: Any) -> Batch | ParkedRecord:
        """Wait for room, in order of arrival, then append."""
        engine = self._engine
        transaction = self._guard.transaction
        clock = engine.parts.clock
        deadline = clock() + engine.max_block_s
        reservation = None
        while True:
            place = self._accumulator.budget.stuck.last_full().place
            reservation = await engine.reserve(prepared, place, reservation)
            try:
                await engine.parts.unknown_topics.known(prepared[0], deadline - clock())
                self._guard.check()
                self._guard.check_transaction(transaction)
                granted = -1 if reservation.shares else reservation.arrived
                self._accumulator.budget.end(reservation)
                return self._append(prepared, waiter, granted)
            except BufferFullError:
                pass  # Its partition became stuck while it waited.
            finally:
                engine.parts.memory_waiters.give_back(reservation)
