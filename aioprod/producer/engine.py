"""The parts of a running producer and their life: start, flush, close, failure.

The `Pipeline` owns the parts that move records, which exist from `start()` on. With a `transactional.id` the
`TransactionManager` decides what they may do: it is made before them, and gets them from `act_on`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aioprod._logger import Logger
from aioprod._short_reprs import shown_error
from aioprod._user_code import raise_later
from aioprod.cluster import Cluster, PartitionInfo
from aioprod.config import ProducerConfig, close_instance
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    FlushTimeoutError,
    ProducerClosedError,
    UsageError,
)
from aioprod.interceptors import Interceptors
from aioprod.metrics import Family
from aioprod.net.settings import client_id_of
from aioprod.net.slow_calls import repeat_while_slow, warn_if_start_is_slow
from aioprod.producer.batching.batch import FlushBarrier
from aioprod.producer.batching.buffer_memory import Reservation
from aioprod.producer.batching.lifecycle import flush
from aioprod.producer.closing import CLOSE_QUIET_S, CloseLimit, Remainder, end_in_time
from aioprod.producer.environment import Environment
from aioprod.producer.failure import rebuilt
from aioprod.producer.guard import Guard, State
from aioprod.producer.logs import milestones
from aioprod.producer.mass_failure import MassFailure
from aioprod.producer.meters import Meters
from aioprod.producer.pipeline import Pipeline
from aioprod.producer.preparation import Preparation, Prepared
from aioprod.producer.reporting import Reporting
from aioprod.producer.settings import sender_settings
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.records.bounds import record_size_bound
from aioprod.records.cursor import EncodedRecord
from aioprod.serializers import make_serializer
from aioprod.types import Buffered, DeliveryReport, ErrorCallback, RecordMetadata
from aioprod.wire import crc

if TYPE_CHECKING:
    from aioprod.producer.batching.partition import Partition, Topic

    # Only a transactional producer imports them.
    from aioprod.producer.transactions.manager import TransactionManager
    from aioprod.producer.transactions.participant import SharedTransaction

__all__ = ["Engine"]

_logger = Logger("aioprod.producer")

_FAIL_S: Final = 10e-6
"""How long failing one record takes, interpreted: a generous estimate."""


class Engine:
    """Everything behind the calls of a producer."""

    parts: Pipeline
    """The parts that move records; from `start()` on."""
    _ending: MassFailure
    """Why the records fail that have no outcome; once the producer ends."""

    def __init__(
        self,
        config: ProducerConfig,
        on_error: ErrorCallback | None,
        shared: SharedTransaction | None = None,
        facade: milestones.Facade = milestones.PRODUCER,
    ) -> None:
        self.config = config
        self.facade = facade
        self.interceptors = Interceptors.from_config(config)
        serializers = make_serializer(config, is_key=True), make_serializer(config, is_key=False)
        self.preparation = Preparation(self.interceptors, *serializers)
        given = config.partitioner_class
        self._partitioner = None if given is None else _partitioner(given, config)
        self.meters = Meters(config.metrics_topics_max)
        self._reporting = Reporting(config, self.metrics_snapshot)
        self.max_block_s = config.max_block_ms / 1000
        self.metadata_listeners: list[Callable[[Cluster], object]] = []
        self._on_error = on_error
        self._settings = settings = sender_settings(config)
        self.transactions = self._manager(shared) if settings.transactional else None
        """None without a `transactional.id`."""
        self._rules = TransactionRules() if self.transactions is None else self.transactions
        self.guard = Guard(self._rules, is_open=not settings.transactional)
        self._sending: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[DeliveryReport] | None = None
        self._reported_cluster: Cluster | None = None
        self._close_cancelled: asyncio.Future[None]
        self._running_since = 0.0

    def _manager(self, shared: SharedTransaction | None) -> TransactionManager:
        # Only a transactional producer imports them.
        if shared is None:
            from aioprod.producer.transactions.manager import TransactionManager

            return TransactionManager(self.config, self.fail)
        from aioprod.producer.transactions.participant import Participant

        return Participant(shared, self.config, self.fail)

    # --- start

    async def start(self, environment: Environment) -> None:
        """Build the parts in the running loop and connect; what was begun is undone when that fails."""
        guard = self.guard
        guard.check_new()
        # A start that fails here, for instance as a module can't be imported, has begun nothing: it may be tried again.
        crc.function()
        self._build(asyncio.get_running_loop(), environment)
        guard.enter(State.STARTING)
        guard.belong_to(asyncio.get_running_loop())
        deadline = self.parts.clock() + self.max_block_s
        try:
            await self.parts.client.start(self.max_block_s)
            guard.check_not_closed()
            self._sending = self.parts.loop.create_task(self.parts.run(), name="aioprod sender")
            self._sending.add_done_callback(self._sender_ended)
            if self.transactions is not None:
                await self._initialize(self.transactions, deadline - self.parts.clock())
            elif self.parts.producer_id is not None:
                await self.parts.producer_id.start(deadline - self.parts.clock())
        except BaseException:
            guard.check_not_closed()
            await self._tear_down()
            raise
        guard.check_not_closed()
        guard.enter(State.RUNNING)
        self._running_since = self.parts.clock()
        _logger.info("%s", milestones.connected(self.config, self.parts.client.metadata.cluster))
        self._reporting.start(self.parts.loop)

    async def _initialize(self, transactions: TransactionManager, timeout_s: float) -> None:
        def why() -> str:
            name = self.config.transactional_id
            return f"The coordinator of transactional.id {name!r} has not answered yet: {self.parts.client.describe()}"

        with warn_if_start_is_slow(self.parts.loop, why, timeout_s):
            await transactions.initialize(timeout_s)

    def _build(self, loop: asyncio.AbstractEventLoop, environment: Environment) -> None:
        self.parts = Pipeline(
            self.config,
            self._settings,
            environment,
            loop=loop,
            meters=self.meters,
            guard=self.guard,
            rules=self._rules,
            interceptors=self.interceptors,
            partitioner=self._partitioner,
            on_error=self._on_error,
            on_failure=self.fail,
            on_metadata=self._metadata_changed,
        )
        if self.transactions is not None:
            self.transactions.act_on(self.parts, self.guard, self.flush)
        self.meters.watch(self.parts.accumulator, self.parts.client, self.interceptors, self.parts.clock)

    # --- records on their way in, and out again

    async def reserve(
        self, prepared: Prepared, place: Partition | Topic | None, earlier: Reservation | None
    ) -> Reservation:
        """Wait for room for a record, in order of arrival; raises BufferFullError after `max.block.ms`.

        `place` and `earlier` are those of `MemoryWaiters.reserve`.
        """
        topic, key, value, headers, partition, _ = prepared
        try:
            return await self.parts.memory_waiters.reserve(
                record_size_bound(key, value, headers), self.max_block_s, place, earlier
            )
        except AioprodError as error:
            self.preparation.report_not_accepted(topic, partition, error)
            raise

    def unwatched(self, future: asyncio.Future[RecordMetadata], prepared: Prepared) -> None:
        """Report the failure of a future whose caller was cancelled in the same iteration of the loop.

        Nothing is reported of a record that was not accepted yet: it counts as withdrawn, as after any cancellation.
        """
        error = future.exception()
        if isinstance(error, DeliveryError):
            topic, key, value, headers, _, timestamp = prepared
            record = EncodedRecord(-1 if timestamp is None else timestamp, key, value, headers)
            self.parts.failure_reports.report_record(error, rebuilt(topic, error.partition, record))

    # --- metadata

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by index."""
        await self.parts.unknown_topics.known(topic, self.max_block_s)
        return list(self.parts.client.metadata.cluster.partitions_for_topic(topic))

    def _metadata_changed(self) -> None:
        cluster = self.parts.client.metadata.cluster
        if cluster is self._reported_cluster:
            return
        self._reported_cluster = cluster
        for listener in self.metadata_listeners:
            try:
                listener(cluster)
            except BaseException as error:
                raise_later(error)
                _logger.exception("A metadata listener failed")

    # --- flush

    async def flush(self, timeout: float | None) -> None:
        """Wait for everything accepted before; raises FlushTimeoutError after `timeout` seconds."""
        barrier, flushed = self._flush()
        start = self.parts.clock()
        try:
            async with asyncio.timeout(timeout):
                await flushed
        except TimeoutError as error:
            held = [*self.parts.accumulator.incomplete, *self.parts.done.batches()]
            remaining = sum(batch.records for batch in held if barrier in (batch.barriers or ()))
            for topic in self.parts.accumulator.parked_topics.values():
                remaining += sum(barrier in (record.barriers or ()) for record in topic.parked or ())
            raise FlushTimeoutError(
                f"{remaining} records have no outcome after flush waited for {timeout:g} s; they stay accepted.",
                remaining=remaining,
                hint="Their own deadline is delivery.timeout.ms.",
            ) from error
        finally:
            self.meters.metrics.flush_time_ns_total.add(round((self.parts.clock() - start) * 1e9))

    def _flush(self) -> tuple[FlushBarrier, asyncio.Future[None]]:
        flushed: asyncio.Future[None] = self.parts.loop.create_future()

        def done() -> None:
            if not flushed.done():
                flushed.set_result(None)

        return flush(self.parts.accumulator, self.parts.done.batches(), self.parts.clock(), done), flushed

    # --- failure

    def fail(self, error: BaseException) -> None:
        """Fail the producer with an unexpected error: all waiters get it as cause."""
        if self.guard.cause is not None:
            return
        self.guard.fail(error)
        _logger.error("The producer has failed and takes no more records", exc_info=error)
        closed_error = self.guard.error()
        self.parts.memory_waiters.close(closed_error)
        self.parts.resolver.end()
        self._ending = MassFailure(f"the producer has failed: {shown_error(error)}.", closed_error, cause=error)
        self._fail_in_slices()

    def _fail_all_now(self, reason: MassFailure) -> None:
        """Fail all records without outcome before this returns, however long that takes: the loop may not run again."""
        self.parts.memory_waiters.close(self.guard.error())
        self._ending = reason
        while self._fail_some():
            self.parts.completions.run_all()

    @property
    def is_ending(self) -> bool:
        """Whether the sender's task was cancelled, as it is when the loop ends."""
        return self._sending is None or self._sending.done() or self._sending.cancelling() > 0

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            if self.guard.state in (State.RUNNING, State.CLOSING):
                self._loop_ended()
        elif (error := task.exception()) is not None:
            self.fail(error)

    def _loop_ended(self) -> None:
        """The loop cancels its tasks, and won't run for much longer: fail at once what has no outcome."""
        is_closing = self.guard.state is State.CLOSING
        records = self.buffered().records
        _logger.error("%s", milestones.loop_ended(self.config, self.facade, records, is_closing=is_closing))
        why = "the sender was cancelled: its event loop ended before the producer was closed."
        error = UsageError(f"{why[0].upper()}{why[1:]}", hint=self.facade.advice)
        self.guard.fail(error)
        self._fail_all_now(MassFailure(why, self.guard.error(), cause=error))
        self.parts.failure_reports.log_counted()

    def _fail_some(self) -> bool:
        """Fail some records without outcome; False once all are completed."""
        return self.parts.fail_some(self._ending) or not self.parts.completions.is_idle

    def _fail_in_slices(self) -> None:
        if self._fail_some():
            self.parts.loop.call_soon(self._fail_in_slices)

    async def _fail_all(self) -> None:
        """Fail all records without outcome, some in each turn of the loop, or at once if this is cancelled."""
        try:
            for _ in iter(self._fail_some, False):
                await asyncio.sleep(0)
        finally:
            self._fail_all_now(self._ending)

    # --- close

    async def close(self, timeout: float | None) -> DeliveryReport:
        """Deliver what can be delivered in time, fail the rest, release everything; the report adds up."""
        guard = self.guard
        if guard.state is State.NEW:
            guard.enter(State.CLOSED)
            self._close_classes()
        if guard.forked or (guard.state is State.CLOSED and self._closing is None):
            return DeliveryReport()
        if guard.loop is not asyncio.get_running_loop():
            raise guard.error()
        closing = self.begin_close(timeout)
        try:
            return await asyncio.shield(closing)
        except asyncio.CancelledError:
            if not self._close_cancelled.done():
                self._close_cancelled.set_result(None)
            await asyncio.wait([closing])
            raise

    def begin_close(self, timeout: float | None) -> asyncio.Task[DeliveryReport]:
        """Close in the background; a close that was begun before continues unchanged."""
        if self._closing is None:
            self.guard.enter(State.CLOSING)
            self._close_cancelled = self.parts.loop.create_future()
            limit = CloseLimit(timeout, self.config)
            self._closing = self.parts.loop.create_task(self._close(limit, self._close_cancelled), name="aioprod close")
        return self._closing

    async def _close(self, limit: CloseLimit, cancelled: asyncio.Future[None]) -> DeliveryReport:
        """Wait for the outcomes until `limit`, or until `cancelled` is done; then fail the rest."""
        self.parts.completions.collect_undelivered()
        self.parts.sender.stop_lingering()
        begun = self.parts.clock()
        closed_error = ProducerClosedError("The producer was closed before the record could be accepted.")
        self.parts.memory_waiters.close(closed_error)
        ending = MassFailure("the producer was closed.", closed_error)
        try:
            if limit.seconds != 0:
                ended = "was cancelled"
                try:
                    if await self._outcomes_within(limit.seconds, cancelled):
                        ended = "ended"
                finally:
                    why = f"{limit.name} {ended} first."
                    ending = MassFailure(
                        why, closed_error, explainer=self.parts.outcomes.explainer, now=self.parts.clock()
                    )
        finally:
            cancelled.cancel()
            self._ending = ending
            try:
                await self._fail_all()
            finally:
                await self._tear_down()
                report, now = self.parts.completions.report(), self.parts.clock()
                _logger.info("%s", milestones.closed(self.config, report, now - self._running_since, now - begun))
        return report

    async def _outcomes_within(self, timeout: float | None, cancelled: asyncio.Future[None]) -> bool:
        """Wait until everything has its outcome, or `cancelled` is done; True if the time was over before."""
        ends_at = None if timeout is None else self.parts.clock() + timeout
        parts = self.parts
        remainder = Remainder(parts.accumulator, parts.held, parts.outcomes.explainer, parts.clock, ends_at)
        with repeat_while_slow(self.parts.loop, remainder.log, after_s=CLOSE_QUIET_S):
            limit_s = None if timeout is None else self._time_to_deliver(timeout)
            if self.transactions is not None:
                limit_s = await end_in_time(self.transactions.close(), limit_s, cancelled)
            waited_for = [self._flush()[1], cancelled]
            done, _ = await asyncio.wait(waited_for, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        return not done

    def _time_to_deliver(self, timeout: float) -> float:
        """What is left of the time for a close, as failing in the end what was not delivered takes some of it."""
        return max(timeout / 2, timeout - self.parts.accumulator.budget.records * _FAIL_S)

    async def _tear_down(self) -> None:
        self.guard.enter(State.CLOSED)
        self._reporting.stop()
        self.parts.close()
        if self.parts.producer_id is not None:
            await self.parts.producer_id.close()
        await self.parts.resolver.close()
        if self.transactions is not None:
            await self.transactions.stop()
        if self._sending is not None:
            # _sender_ended has handled its error by then.
            self._sending.cancel()
            await asyncio.wait([self._sending])
        try:
            await self.parts.client.close()
        finally:
            self.parts.completions.run_all()
            for _ in iter(partial(self.parts.failure_reports.report_unread, closing=True), True):
                await asyncio.sleep(0)
            self.parts.failure_reports.log_counted()
            self._close_classes()

    def _close_classes(self) -> None:
        self.preparation.close()
        self.interceptors.close()
        self._reporting.close()
        close_instance(self._partitioner)

    # --- what can be seen

    def buffered(self) -> Buffered:
        """Records and bytes that are held."""
        if self.guard.loop is None:
            return Buffered(0, 0)
        return Buffered(self.parts.accumulator.budget.records, self.parts.accumulator.budget.used)

    def metrics_snapshot(self) -> dict[str, float]:
        """All metrics by name."""
        return self.meters.metrics.snapshot()

    @property
    def client_id(self) -> str:
        """The name of this producer at the brokers."""
        return client_id_of(self.config)

    def metric_families(self) -> list[Family]:
        """All metrics as monitoring systems collect them."""
        return self.meters.metrics.families()


def _partitioner(given: Any, config: ProducerConfig) -> Any:
    from aioprod.routing.given import partitioner_of  # Few producers have one of their own.

    return partitioner_of(given, config)
