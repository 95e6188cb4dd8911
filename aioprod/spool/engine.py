"""Everything behind the calls of a spooled producer: the opened folder, and the relay that empties it."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, FlushTimeoutError, ProducerClosedError
from aioprod.interceptors import Interceptors
from aioprod.producer.guard import Guard, State
from aioprod.producer.preparation import Preparation
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.relay.loop import RelayLoop, Surroundings
from aioprod.serializers import make_serializer
from aioprod.spool.gathering import Forming
from aioprod.spool.health import SpoolHealth
from aioprod.spool.intake import Intake
from aioprod.spool.kept import not_here
from aioprod.spool.layout import seed_of
from aioprod.spool.meters import SpoolMetrics
from aioprod.spool.receipts import FailedRecords
from aioprod.spool.relaying import RelayTerms, new_relay, producer_config
from aioprod.spool.source import SpoolSource
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from aioprod.spool.waiters import Watched
from aioprod.types import DeliveryReport, ErrorCallback

__all__ = ["SpoolEngine", "SpoolSettings"]

_logger = Logger("aioprod.spool")

_CLOSE_S: Final = 10.0
"""How long `close()` waits for Kafka where nothing else is said: what is kept is safe without it."""
_ADD_MAX: Final = 1 << 20


class SpoolSettings(NamedTuple):
    """What a spooled producer has beside the settings of its clients."""

    folder: str
    limits: Limits
    relays: bool
    terms: RelayTerms


class SpoolEngine:
    """The parts of a spooled producer, and their life."""

    store: Store
    """The opened folder; from `open()` on."""
    intake: Intake
    """What makes the bytes of records; from `open()` on."""
    _source: SpoolSource

    def __init__(self, config: ProducerConfig, settings: SpoolSettings, on_error: ErrorCallback | None) -> None:
        self.config = config
        self._settings = settings
        self._on_error = on_error
        if settings.relays:
            producer_config(config, settings.terms, "aioprod-spool")  # Raises before anything is opened.
        self._interceptors = Interceptors.from_config(config)
        serializers = make_serializer(config, is_key=True), make_serializer(config, is_key=False)
        self.preparation = Preparation(self._interceptors, *serializers)
        self.guard = Guard(TransactionRules())
        self.watched: Watched | None = Watched(self._interceptors, self._check_relay) if settings.relays else None
        """The callers that wait for their records to be in Kafka; None where another process brings them there."""
        self.metrics = SpoolMetrics(self.kept_records, self._kept_bytes, self._set_aside_records)
        self.add_max: Final = min(_ADD_MAX, settings.limits.max_bytes // 4)
        """The bytes that wait for room together; there is room for them when all is delivered."""
        self._failed = FailedRecords(self._interceptors, on_error, self.metrics.failed)
        self.relay: RelayLoop | None = None
        self._relaying: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[DeliveryReport] | None = None
        self._progress = asyncio.Event()
        """Set when records were delivered, or will not be."""

    # --- start

    async def open(self, storage: Storage, surroundings: Surroundings) -> None:
        """Open the folder, and begin to bring what it has to Kafka. Raises SpoolError."""
        store = await Store.open(
            storage,
            self._settings.limits,
            reads=self._settings.relays,
            on_durable=self.metrics.synced,
            on_failed=self._report_failed,
        )
        try:
            self._source = await SpoolSource.of(store, self._progress.set)
            self.guard.check_not_closed()
        except BaseException:
            await store.close()
            raise
        self.store = store
        self.intake = Intake(self.config, self.preparation, seed_of(store.spool_id))
        self.guard.belong_to(asyncio.get_running_loop())
        self.guard.enter(State.RUNNING)
        if self.watched is not None:
            self._begin_relay(self.watched, surroundings)
        waiting = self.kept_records()
        if waiting:
            _logger.info("The spool %s has %s that are not in Kafka.", storage.name, counted(waiting, "record"))

    def _begin_relay(self, watched: Watched, surroundings: Surroundings) -> None:
        self.relay = new_relay(
            self._source,
            self.config,
            self._settings.terms,
            watched=watched,
            on_error=self._on_error,
            surroundings=surroundings,
        )
        self._relaying = asyncio.create_task(self.relay.run(), name="aioprod spool relay")
        self._relaying.add_done_callback(self._relay_ended)

    def _report_failed(self, forming: Forming, error: AioprodError) -> None:
        self._failed.report(forming, error, self.intake.seed)

    # --- the relay's end

    def _relay_ended(self, task: asyncio.Task[None]) -> None:
        self._progress.set()
        error = None if task.cancelled() else task.exception()
        if error is not None and self.watched is not None:
            _logger.error("Records stay in the spool %s from now on: %s", self._settings.folder, error)
            self.watched.interrupt(_error_for_callers(error))

    def _check_relay(self) -> None:
        """Raise what has ended the relay, and ProducerClosedError when this producer is closed."""
        self.guard.check_running()
        error = self._relay_error()
        if error is not None:
            raise error

    def _relay_error(self) -> AioprodError | None:
        task = self._relaying
        if task is None or not task.done():
            return None
        if task.cancelled():
            return ProducerClosedError("The producer is closed: what is not in Kafka leaves with the next start.")
        error = task.exception()
        return None if error is None else _error_for_callers(error)

    # --- waiting, and the end

    async def flush(self, timeout: float | None) -> None:
        """Wait until everything accepted is in Kafka; raises FlushTimeoutError, UsageError, or the relay's error."""
        if self._relaying is None:
            raise not_here("flush() can't be awaited")
        await self.store.drain()
        last = self.store.last_number
        try:
            async with asyncio.timeout(timeout):
                await self._until_delivered(last)
        except TimeoutError:
            left = self.kept_records()
            raise FlushTimeoutError(
                f"After {timeout} s {counted(left, 'record')} of the spool {self._settings.folder} "
                f"{'is' if left == 1 else 'are'} not in Kafka; on disk nothing is lost.",
                remaining=left,
            ) from None

    async def _until_delivered(self, number: int) -> None:
        while self._source.left(number):
            error = self._relay_error()
            if error is not None:
                raise error
            self._progress.clear()
            await self._progress.wait()

    async def close(self, timeout: float | None) -> DeliveryReport:
        """Keep what was accepted, wait for Kafka for some time, and release everything."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(timeout), name="aioprod spool closes")
        return await asyncio.shield(self._closing)

    async def _close(self, timeout: float | None) -> DeliveryReport:
        if self.guard.state is not State.RUNNING:
            self.guard.enter(State.CLOSED)
            return DeliveryReport()
        if timeout is None:
            given = self.config.close_timeout_ms
            timeout = _CLOSE_S if given is None else given / 1000
        self.guard.enter(State.CLOSING)
        await self.store.drain()
        if self._relaying is not None:
            await self._end_relay(self._relaying, timeout)
        kept = self.kept_records()
        delivered = 0 if self.relay is None else self.relay.metrics.records.value
        await self.store.close()
        self.guard.enter(State.CLOSED)
        if self.watched is not None:
            self.watched.interrupt(ProducerClosedError("The record is on disk, and leaves with the next start."))
        self.preparation.close()
        self._interceptors.close()
        if kept:
            _logger.info("The spool %s keeps %s for its next start.", self._settings.folder, counted(kept, "record"))
        return DeliveryReport(delivered=delivered, kept=kept)

    async def _end_relay(self, relaying: asyncio.Task[None], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._until_delivered(self.store.last_number)
        except (TimeoutError, AioprodError):
            pass  # The report says what is kept, and the log why the relay has ended.
        finally:
            relaying.cancel()
            await asyncio.wait([relaying])

    # --- what is known

    def kept_records(self) -> int:
        """The records on disk that are not in Kafka as far as the folder knows."""
        return self._source.left(self.store.last_number) if self.guard.loop is not None else 0

    def _kept_bytes(self) -> int:
        return self.store.size if self.guard.loop is not None else 0

    def _set_aside_records(self) -> int:
        return self._source.aside_records if self.guard.loop is not None else 0

    def health(self) -> SpoolHealth:
        """The health of the producer now."""
        error = self.store.failure if self.guard.loop is not None else None
        relay = None if self.relay is None else self.relay.health()
        state = self.guard.state.value if error is None else "failed"
        limit = self._settings.limits.max_bytes
        return SpoolHealth(state, self.kept_records(), self._kept_bytes(), limit, relay, error)


def _error_for_callers(error: BaseException) -> AioprodError:
    """What has ended the relay, as callers get it."""
    if isinstance(error, AioprodError):
        return error.again()
    wrapped = ProducerClosedError(f"The way to Kafka has ended: {error!r}. The record is on disk.")
    wrapped.__cause__ = error
    return wrapped
