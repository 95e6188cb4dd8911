"""`SpooledProducer` is the class that users import: its arguments and its calls. `SpoolEngine` does the work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from aioprod._loops import look_at
from aioprod._short_reprs import client_repr
from aioprod._words import counted
from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError
from aioprod.metrics.families import Family
from aioprod.producer.callbacks import DeliveryCallbacks, error_callback
from aioprod.producer.guard import State
from aioprod.producer.preparation import seconds
from aioprod.producer.producer import all_options
from aioprod.relay.delivery import says_exactly_once
from aioprod.relay.loop import Surroundings
from aioprod.spool.bulk import BulkIntake
from aioprod.spool.engine import SpoolEngine, SpoolSettings
from aioprod.spool.health import SpoolHealth
from aioprod.spool.kept import Kept, KeptMany, not_here
from aioprod.spool.receipts import CallbackWaiter, KeptWaiter
from aioprod.spool.relaying import RelayTerms
from aioprod.spool.spool import MAX_BYTES, limits_of
from aioprod.spool.storage import Storage
from aioprod.types import (
    NO_VALUE,
    DeliveryCallback,
    DeliveryReport,
    ErrorCallback,
    Headers,
    ProducerRecord,
    Timestamp,
)

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import InterceptorsOption, PartitionerOption, RelayOptions, SerializerOption

__all__ = ["SpooledProducer"]


class SpooledProducer:
    """Keeps records on disk until they are in Kafka, each once and in order, whatever is away and whatever dies.

        async with SpooledProducer("localhost:9092", folder="/var/lib/shop/spool") as producer:
            kept = await producer.send("orders", b"a book", key=b"7")     # it is on disk, Kafka may be away
            place = await kept.stored()                                   # if you want to wait: its place in Kafka

    The only way is from the caller to the disk and from the disk to Kafka, so that the order of the calls is that in
    Kafka, for each topic and partition. A relay in the same event loop brings records to Kafka in transactions with a
    marker (docs/relay.md): readers with isolation.level=read_committed see each record once. A record's partition is
    chosen when it leaves.

    `folder` belongs to one producer at a time. `max_bytes` is what its files may have: where they have it, `send` waits
    for up to `max.block.ms`, and the calls that don't wait raise BufferFullError. `transactional_id` is
    `aioprod-spool.<the folder's id>` by default. `poison` says what becomes of a record that brokers will never take,
    as it is too large, or its topic gone or forbidden: "stop" ends the relay, and all records stay on disk; "set-aside"
    writes it to a file of the folder, with the reason. `relays=False` leaves the way to Kafka to another process:
    `aioprod spool drain FOLDER`.

    The other arguments are those of `Producer`, and of `Relay`. Interceptors and serializers run when a record is
    kept. `on_error(error, record)` is called for each record that was set aside or could not be kept, and that no
    caller waits for. Raises ConfigError. Touches neither disk nor network before `start()`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        folder: str | os.PathLike[str],
        max_bytes: int = MAX_BYTES,
        segment_bytes: int | None = None,
        poison: Literal["stop", "set-aside"] = "stop",
        relays: bool = True,
        transactional_id: str | None = None,
        marker_topic: str | None = None,
        delivery: Literal["exactly-once", "at-least-once"] = "exactly-once",
        config: ProducerConfig | Mapping[str, Any] | None = None,
        key_serializer: SerializerOption | None = None,
        value_serializer: SerializerOption | None = None,
        partitioner: PartitionerOption | None = None,
        interceptors: InterceptorsOption = (),
        on_error: ErrorCallback | None = None,
        **options: Unpack[RelayOptions],
    ) -> None:
        """The class says what the arguments are."""
        if poison not in ("stop", "set-aside"):
            raise ConfigError(f"poison is {poison!r}: it must be 'stop' or 'set-aside'.")
        given = all_options(options, key_serializer, value_serializer, partitioner, interceptors)
        self.config = ProducerConfig.given(config, bootstrap_servers, given)
        settings = SpoolSettings(
            folder=str(folder),
            limits=limits_of(max_bytes, segment_bytes, self.config.buffer_memory),
            relays=relays,
            terms=RelayTerms(
                transactional_id=transactional_id or self.config.transactional_id,
                is_exactly_once=says_exactly_once(delivery),
                marker_topic=marker_topic,
                sets_aside=poison == "set-aside",
            ),
        )
        self._folder = Path(folder)
        self._callbacks = DeliveryCallbacks()
        self._engine = SpoolEngine(self.config, settings, error_callback(on_error))
        self._max_block_s = self.config.max_block_ms / 1000

    def __repr__(self) -> str:
        engine = self._engine
        what = f"{engine.guard.state_in_words}, {counted(engine.kept_records(), 'record')} kept in {self._folder}"
        return client_repr("SpooledProducer", self.config.client_id, self.config.bootstrap_servers, what)

    # --- life

    async def start(self) -> None:
        """Open the folder, and begin to bring what it has to Kafka, which is not waited for.

        Raises SpoolError for a folder that can't be used, UsageError when it was started before, and
        ProducerClosedError when it was closed meanwhile.
        """
        await self._start_in(None, Surroundings())

    async def _start_in(self, storage: Storage | None, surroundings: Surroundings) -> None:
        """Start on other files, with other clocks, as the simulation does."""
        guard = self._engine.guard
        guard.check_new()
        guard.enter(State.STARTING)
        try:
            await self._engine.open(storage or await Storage.of_folder(self._folder), surroundings)
        except BaseException:
            if guard.state is not State.CLOSED:
                guard.enter(State.NEW)
            raise

    async def close(self, timeout: float | None = None) -> DeliveryReport:
        """Bring what is accepted to the disk, wait for Kafka for at most `timeout` seconds, and release everything.

        None is `close.timeout.ms`, by default 10 s. The report says how many records were delivered since the start,
        and how many are `kept`: these leave with the next start. A second call returns the same report.
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
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> Kept:
        """Keep one record, and return when it is on disk. The arguments are those of `Producer.send`.

        Waits up to `max.block.ms` for room. Raises InvalidRecordError and its subclasses, BufferFullError where neither
        `max_bytes` nor the disk has room, ProducerClosedError or UsageError: the record is not kept then; SpoolError
        where the disk has failed, whose `may_be_stored` says whether the record may be found at the next start. A call
        that is cancelled may have kept its record.
        """
        engine = self._engine
        engine.guard.check()
        data = await engine.intake.encode_async(topic, value, key, partition, headers, timestamp)
        waiter = KeptWaiter(1, engine.watched)
        await engine.store.add_in_turn(data, 1, waiter, self._max_block_s)
        return await waiter.future

    def submit(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> asyncio.Future[Kept]:
        """Accept one record at once; the future is done when it is on disk. Raises what `send` raises, without waiting.

        Cancelling the future does not take the record back.
        """
        engine = self._engine
        engine.guard.check()
        data = engine.intake.encode(topic, value, key, partition, headers, timestamp)
        waiter = KeptWaiter(1, engine.watched)
        engine.store.add(data, 1, waiter)
        return waiter.future

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
        """Accept one record at once; it is on disk some milliseconds later. `await drain()` waits for that.

        `on_delivery(metadata, error)` is called when it is in Kafka, if that is in the life of this producer, or with
        the error where it could not be kept or was set aside. Raises what `submit` raises, and UsageError for an
        `on_delivery` where another process brings records to Kafka.
        """
        engine = self._engine
        engine.guard.check()
        waiter = None
        if on_delivery is not None:
            self._callbacks.check(on_delivery)
            if engine.watched is None:
                raise not_here("on_delivery can't be called")
            waiter = CallbackWaiter(on_delivery, engine.watched)
        data = engine.intake.encode(topic, value, key, partition, headers, timestamp)
        engine.store.add(data, 1, waiter, is_urgent=False)

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
    ) -> KeptMany:
        """Keep all `values`, waiting for room as needed, and return when they are on disk.

        The arguments are those of `Producer.send_many`. Faults of single records are in `failures` of the result, with
        their index. `await result.stored()` waits until all are in Kafka. Raises what `send` raises; what was kept
        before stays.
        """
        engine = self._engine
        engine.guard.check()
        call = BulkIntake(engine.intake, topic, values, keys, partition, headers, timestamps, engine.add_max)
        futures: list[asyncio.Future[Kept]] = []

        async def keep(data: bytes, records: int) -> None:
            waiter = KeptWaiter(records, engine.watched)
            waiter.future.add_done_callback(look_at)  # The first error is enough.
            futures.append(waiter.future)
            engine.guard.check()
            await engine.store.add_in_turn(data, records, waiter, self._max_block_s, is_urgent=False)

        await call.keep(keep)
        engine.store.write_now()
        last = None
        for future in futures:
            last = await future
        return KeptMany(call.count, last, tuple(call.failures))

    # --- waiting

    async def drain(self) -> None:
        """Wait until everything that was accepted is on disk."""
        self._engine.guard.check_running()
        await self._engine.store.drain()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was accepted before this call is in Kafka.

        Raises FlushTimeoutError after `timeout` seconds, and what has ended the relay; the records stay on disk.
        UsageError, at once, where another process brings the records to Kafka.
        """
        self._engine.guard.check_running()
        await self._engine.flush(seconds("flush", timeout))

    # --- what is known

    def health(self) -> SpoolHealth:
        """What the probes of a service need: what is kept, whether more is accepted, and whether it moves."""
        return self._engine.health()

    def metrics(self) -> dict[str, float]:
        """The present value of every metric, by name."""
        relay = self._engine.relay
        own = self._engine.metrics.snapshot()
        return own if relay is None else own | relay.metrics.snapshot() | relay.producer.metrics()

    def metric_families(self) -> list[Family]:
        """The same for monitoring systems; every name once."""
        relay = self._engine.relay
        own = self._engine.metrics.families()
        return own if relay is None else own + relay.metrics.families() + relay.producer.metric_families()

    @property
    def client_id(self) -> str:
        """The name of its clients at the brokers: `client.id`, or that of all that have none."""
        relay = self._engine.relay
        return self.config.client_id if relay is None else relay.producer.client_id

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the producer lives in; None before it is started."""
        return self._engine.guard.loop
