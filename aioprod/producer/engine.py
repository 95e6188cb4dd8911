"""The parts of a running producer and their life: start, flush, close, failure.

`_build` makes the parts in the order in which they need each other: client, accumulator, completions, outcomes. Each
gets its collaborators by constructor, but for the scheduler (`attach`), which the client needs first.
Where two parts call each other, the first one gets a method of the engine or
an object that looks the second one up on the engine when it is called: `OpenTransactionRules`, `_renew_producer_id`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from aioprod.cluster import Cluster, MetadataUpdate, PartitionInfo
from aioprod.config import ProducerConfig, close_instance
from aioprod.core.accumulator import Accumulator
from aioprod.core.batch import Batch, FlushBarrier, ParkedRecord
from aioprod.core.budget import MemoryRequest
from aioprod.core.lifecycle import flush, withdraw
from aioprod.core.parking import withdraw_parked
from aioprod.core.sequences import Sequences
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    FlushTimeoutError,
    ProducerClosedError,
)
from aioprod.interceptors import Interceptors
from aioprod.net.client import Client
from aioprod.net.settings import ClientSettings
from aioprod.net.slow_calls import repeat_while_slow, warn_if_start_is_slow
from aioprod.producer import unclosed
from aioprod.producer.backpressure import MemoryWaiters
from aioprod.producer.clock import Clock
from aioprod.producer.closing import CLOSE_QUIET_S, CloseLimit, Ending, Remainder
from aioprod.producer.completions import USER_ERRORS, Completions
from aioprod.producer.explain import Explainer
from aioprod.producer.failure import rebuilt
from aioprod.producer.guard import Guard, State
from aioprod.producer.logs import milestones
from aioprod.producer.logs.event_log import EventLog
from aioprod.producer.meters import Meters
from aioprod.producer.outcomes import Outcomes
from aioprod.producer.preparation import Preparation, Prepared
from aioprod.producer.producer_id import ProducerIdKeeper
from aioprod.producer.reporting import Reporting
from aioprod.producer.scheduler import Scheduler
from aioprod.producer.settings import accumulator_settings, sender_settings
from aioprod.producer.transaction_rules import TransactionRules
from aioprod.producer.unknown_topics import UnknownTopics
from aioprod.records.builder import record_size_bound
from aioprod.records.cursor import EncodedRecord
from aioprod.serializers import make_serializer
from aioprod.types import Buffered, DeliveryReport, ErrorCallback, RecordMetadata
from aioprod.wire import crc

if TYPE_CHECKING:
    # Only a transactional producer imports them.
    from aioprod.producer.transactions.handle import TransactionHandle
    from aioprod.producer.transactions.runner import Transactions

__all__ = ["Engine"]

log = logging.getLogger("aioprod.producer")

TELL_S = 10e-6
"""What telling one record's failure takes, interpreted: a generous estimate."""


class Engine:
    """Everything behind the facade. Its parts exist from `start()` on."""

    accumulator: Accumulator
    client: Client
    delivery: Completions
    outcomes: Outcomes
    topics: UnknownTopics
    room: MemoryWaiters
    loop: asyncio.AbstractEventLoop
    _ending: Ending

    def __init__(
        self, config: ProducerConfig, on_error: ErrorCallback | None, handle: TransactionHandle | None = None
    ) -> None:
        self.config = config
        self.interceptors = Interceptors.from_config(config)
        serializers = make_serializer(config, is_key=True), make_serializer(config, is_key=False)
        self.preparation = Preparation(self.interceptors, *serializers)
        given = config.partitioner_class
        self._partitioner = None if given is None else _partitioner(given, config)
        self.meters = Meters()
        self._reporting = Reporting(config, self.metrics_snapshot)
        self.max_block_s = config.max_block_ms / 1000
        self.metadata_listeners: list[Callable[[Cluster], object]] = []
        self.clock = Clock()
        self.random = Random()  # noqa: S311  # for jitter and sticky partitions
        self._on_error = on_error
        self._handle = handle
        self._rules = self._rules_of(config)
        self.guard = Guard(self._rules)
        self._identity: ProducerIdKeeper | None = None
        self.transactions: Transactions | None = None
        self._sending: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[DeliveryReport] | None = None
        self._cluster_told: Cluster | None = None
        self._hurry: asyncio.Future[None]
        self._running_since = 0.0

    # --- start

    async def start(self) -> None:
        """Build the parts in the running loop and connect; what was begun is undone when that fails."""
        guard = self.guard
        guard.check_new()
        guard.enter(State.STARTING)
        guard.belong_to(asyncio.get_running_loop())
        crc.load()
        self._build(asyncio.get_running_loop())
        deadline = self.clock() + self.max_block_s
        try:
            await self.client.start(self.max_block_s)
            guard.check_not_closed()
            self._sending = self.loop.create_task(self._scheduler.run(), name="aioprod sender")
            self._sending.add_done_callback(self._sender_ended)
            if self.transactions is not None:
                await self._initialize(self.transactions, deadline - self.clock())
            elif self._identity is not None:
                await self._identity.start(deadline - self.clock())
        except BaseException:
            guard.check_not_closed()
            await self._tear_down()
            raise
        guard.check_not_closed()
        guard.enter(State.RUNNING)
        self._running_since = self.clock()
        log.info("%s", milestones.connected(self.config, self.client.metadata.cluster))
        self._reporting.start(self.loop)

    async def _initialize(self, transactions: Transactions, timeout_s: float) -> None:
        def why() -> str:
            name = self.config.transactional_id
            return f"The coordinator of transactional.id {name!r} has not answered yet: {self.client.describe()}"

        with warn_if_start_is_slow(self.loop, why, timeout_s):
            await transactions.initialize(timeout_s)

    def _rules_of(self, config: ProducerConfig) -> TransactionRules:
        if config.transactional_id is None:
            return TransactionRules()
        from aioprod.producer.transactions.wiring import OpenTransactionRules

        return OpenTransactionRules(self)

    def _sequences(self, journal: EventLog) -> Sequences:
        is_transactional = self.config.transactional_id is not None
        return Sequences(
            transactional=is_transactional,
            join=self._rules.join if is_transactional else None,
            renew=None if is_transactional else self._renew_producer_id,
            bumped=lambda partition: journal.bumped(partition, self.clock()),
        )

    def _renew_producer_id(self) -> None:
        assert self._identity is not None
        self._identity.renew()

    def _build(self, loop: asyncio.AbstractEventLoop) -> None:
        config = self.config
        settings = sender_settings(config)
        self.loop = loop
        journal = EventLog()
        self._scheduler = Scheduler(
            settings,
            meters=self.meters,
            loop=loop,
            clock=self.clock,
            on_failure=self.fail,
            on_metadata=self._metadata_changed,
        )
        client_settings = ClientSettings.from_config(config)
        self.client = Client(client_settings, loop=loop, clock=self.clock, random=self.random, listener=self._scheduler)
        self.accumulator = Accumulator(
            accumulator_settings(config),
            metadata=self.client.metadata,
            random=self.random,
            wake=self._scheduler.schedule,
            partitioner=self._partitioner,
            due=self._scheduler.wake_at,
            compress=self._scheduler.compress,
            sequences=self._sequences(journal) if config.enable_idempotence else None,
            withdraw=self.withdraw,
            moved=lambda partition, old: journal.moved(partition, old, self.clock()),
        )
        self.room = MemoryWaiters(self.accumulator.budget, loop, self._scheduler.press)
        self.delivery = Completions(
            self.accumulator,
            loop=loop,
            clock=self.clock,
            interceptors=self.interceptors,
            on_error=self._on_error,
            rules=self._rules,
            held=self.meters.held,
            room_freed=self.room.freed,
            watch_unseen=self._scheduler.watch_unseen,
        )
        self.outcomes = Outcomes(
            settings,
            accumulator=self.accumulator,
            delivery=self.delivery,
            meters=self.meters,
            explainer=Explainer(
                settings, accumulator=self.accumulator, client=self.client, rules=self._rules, clock=self.clock
            ),
            journal=journal,
            rules=self._rules,
            backoff=self.client.backoff_s,
            wake=self._scheduler.wake,
        )
        if config.enable_idempotence and not settings.transactional:
            self._identity = ProducerIdKeeper(self.client, self.accumulator, loop=loop, on_failure=self.fail)
        self.topics = UnknownTopics(
            self.accumulator,
            self.delivery,
            clock=self.clock,
            guard=self.guard,
            describe=self.client.describe,
        )
        self._scheduler.attach(self.client, self.accumulator, self.delivery, self.outcomes, self.topics, self.room)
        if config.transactional_id is not None:
            from aioprod.producer.transactions.wiring import transactions_of

            self.transactions = transactions_of(self, self._scheduler, self._handle)
        self.meters.watch(self.accumulator, self.client, self.interceptors, self.clock)

    # --- records on their way in, and out again

    async def reserve(self, prepared: Prepared) -> MemoryRequest:
        """Wait for room for a record, in order of arrival; raises BufferFullError after `max.block.ms`."""
        topic, key, value, headers, partition, _ = prepared
        try:
            return await self.room.reserve(record_size_bound(key, value, headers), self.max_block_s)
        except AioprodError as error:
            self.preparation.tell_refused(topic, partition, error)
            raise

    def withdraw(self, waiter: asyncio.Future[RecordMetadata], owner: Batch | ParkedRecord) -> None:
        """A future was cancelled: take its record back if it was not sent yet."""
        if isinstance(owner, ParkedRecord):
            if owner.moved_to is None:
                withdraw_parked(self.accumulator, owner)
                self.room.freed()
                return
            owner = owner.moved_to
        if withdraw(self.accumulator, owner, waiter, self.clock()):
            self.room.freed()

    def unwatched(self, future: asyncio.Future[RecordMetadata], prepared: Prepared) -> None:
        """Whoever awaited this finished future was cancelled in the same turn of the loop."""
        error = future.exception()
        if isinstance(error, AioprodError):
            topic, key, value, headers, partition, timestamp = prepared
            record = EncodedRecord(-1 if timestamp is None else timestamp, key, value, headers)
            if isinstance(error, DeliveryError):
                partition = error.partition
            self.delivery.report_unwatched(error, rebuilt(topic, partition, record))

    # --- metadata

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by index."""
        await self.topics.known(topic, self.max_block_s)
        return list(self.client.metadata.cluster.partitions_for_topic(topic))

    def _metadata_changed(self, update: MetadataUpdate) -> None:
        self.topics.changed()
        cluster = self.client.metadata.cluster
        if cluster is self._cluster_told:
            return
        self._cluster_told = cluster
        for listener in self.metadata_listeners:
            try:
                listener(cluster)
            except USER_ERRORS:
                log.exception("A metadata listener failed")

    # --- flush

    async def flush(self, timeout: float | None) -> None:
        """Wait for everything accepted before; raises FlushTimeoutError after `timeout` seconds."""
        barrier, flushed = self._flush()
        try:
            async with asyncio.timeout(timeout):
                await flushed
        except TimeoutError as error:
            held = [*self.accumulator.incomplete, *self.delivery.batches()]
            remaining = sum(batch.records for batch in held if barrier in (batch.barriers or ()))
            for topic in self.accumulator.parked_topics.values():
                remaining += sum(barrier in (record.barriers or ()) for record in topic.parked or ())
            raise FlushTimeoutError(
                f"{remaining} records have no outcome after flush waited for {timeout:g} s; they go on.",
                remaining=remaining,
                hint="Their own deadline is delivery.timeout.ms.",
            ) from error

    def _flush(self) -> tuple[FlushBarrier, asyncio.Future[None]]:
        flushed: asyncio.Future[None] = self.loop.create_future()

        def done() -> None:
            if not flushed.done():
                flushed.set_result(None)

        return flush(self.accumulator, self.delivery.batches(), self.clock(), done), flushed

    # --- failure

    def fail(self, error: BaseException) -> None:
        """Something broke that no record is to blame for: everybody who waits gets the cause at once."""
        if self.guard.cause is not None:
            return
        self.guard.fail(error)
        log.error("The producer has failed and takes no more records", exc_info=error)
        refusal = self.guard.refusal()
        self.room.close(refusal)
        self._ending = Ending(f"the producer has failed: {error!r}.", refusal, cause=error)
        self._give_up_in_turns()

    def give_up_now(self, ending: Ending) -> None:
        """Fail all that has no outcome before this returns, however long that takes: no other turn may come."""
        self.room.close(self.guard.refusal())
        self._ending = ending
        while self._give_up_some():
            self.delivery.run_all()

    @property
    def is_ending(self) -> bool:
        """Whether the sender was told to end, as it is when the loop ends."""
        return self._sending is None or self._sending.done() or self._sending.cancelling() > 0

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            if self.guard.state in (State.RUNNING, State.CLOSING):
                unclosed.loop_ended(self)
        elif (error := task.exception()) is not None:
            self.fail(error)

    def _give_up_some(self) -> bool:
        """Fail a turn's worth of what has no outcome yet; False once everybody was told of everything."""
        are_parked = self.topics.refuse_some(self._ending.of_topic)
        are_held = self.outcomes.fail_some(self.clock(), self._ending)
        self.delivery.run()
        return are_parked or are_held or not self.delivery.is_idle

    def _give_up_in_turns(self) -> None:
        if self._give_up_some():
            self.loop.call_soon(self._give_up_in_turns)

    async def _give_up_all(self) -> None:
        """Give the loop its turns meanwhile, but not if this is cancelled."""
        try:
            for _ in iter(self._give_up_some, False):
                await asyncio.sleep(0)
        finally:
            self.give_up_now(self._ending)

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
            raise guard.refusal()
        closing = self.begin_close(timeout)
        try:
            return await asyncio.shield(closing)
        except asyncio.CancelledError:
            if not self._hurry.done():
                self._hurry.set_result(None)
            await asyncio.wait([closing])
            raise

    def begin_close(self, timeout: float | None) -> asyncio.Task[DeliveryReport]:
        """Close in the background; a close that was begun before goes on as it is."""
        if self._closing is None:
            self.guard.enter(State.CLOSING)
            self._hurry = self.loop.create_future()
            limit = CloseLimit(timeout, self.config)
            self._closing = self.loop.create_task(self._close(limit, self._hurry), name="aioprod close")
        return self._closing

    async def _close(self, limit: CloseLimit, hurry: asyncio.Future[None]) -> DeliveryReport:
        """Wait for the outcomes until `limit`, or until somebody is in a hurry; then give the rest up."""
        self.delivery.undelivered = []
        self._scheduler.hurry()
        begun = self.clock()
        refusal = ProducerClosedError("The producer was closed before the record could be accepted.")
        self.room.close(refusal)
        ending = Ending("the producer was closed.", refusal)
        try:
            if limit.seconds != 0:
                ended = "was cancelled"
                try:
                    if await self._outcomes_within(limit.seconds, hurry):
                        ended = "ended"
                finally:
                    why = f"{limit.name} {ended} first."
                    ending = Ending(why, refusal, explainer=self.outcomes.explainer, now=self.clock())
        finally:
            hurry.cancel()
            self._ending = ending
            try:
                await self._give_up_all()
            finally:
                await self._tear_down()
                report, now = self.delivery.report(), self.clock()
                log.info("%s", milestones.closed(self.config, report, now - self._running_since, now - begun))
        return report

    async def _outcomes_within(self, timeout: float | None, hurry: asyncio.Future[None]) -> bool:
        """Wait until everything has its outcome, or somebody is in a hurry; whether the time was over before."""
        ends_at = None if timeout is None else self.clock() + timeout
        remainder = Remainder(self.accumulator, self.outcomes.explainer, self.clock, ends_at)
        with repeat_while_slow(self.loop, remainder.tell, after_s=CLOSE_QUIET_S):
            limit_s = None if timeout is None else self._time_to_deliver(timeout)
            if self.transactions is not None:
                from aioprod.producer.transactions.wiring import end_in_time

                limit_s = await end_in_time(self.transactions, limit_s, hurry)
            waited_for = [self._flush()[1], hurry]
            done, _ = await asyncio.wait(waited_for, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        return not done

    def _time_to_deliver(self, timeout: float) -> float:
        """What is left of the time for a close, as failing in the end what was not delivered takes some of it."""
        return max(timeout / 2, timeout - self.accumulator.budget.records * TELL_S)

    async def _tear_down(self) -> None:
        self.guard.enter(State.CLOSED)
        self._reporting.stop()
        self._scheduler.close()
        if self._identity is not None:
            await self._identity.close()
        if self.transactions is not None:
            await self.transactions.stop()
        if self._sending is not None:
            # What it ended with has been told by then.
            self._sending.cancel()
            await asyncio.wait([self._sending])
        try:
            await self.client.close()
        finally:
            self.delivery.run_all()
            for _ in iter(partial(self.delivery.report_unseen, closing=True), True):
                await asyncio.sleep(0)
            self.delivery.tell_counted()
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
        return Buffered(self.accumulator.budget.records, self.accumulator.budget.used)

    def metrics_snapshot(self) -> dict[str, float]:
        """All metrics by name."""
        return self.meters.metrics.snapshot()


def _partitioner(given: Any, config: ProducerConfig) -> Any:
    from aioprod.routing.given import partitioner_of  # Few producers have one of their own.

    return partitioner_of(given, config)
