"""The parts of a started producer: how they are put together, and what they do when something happens.

A part gets the parts that it calls by its constructor. Those that were built before the part that they have to reach
report an event instead, and the `Pipeline` handles it:

- `BatchEvents`: the accumulator, its queues and its sequence numbers;
- `ClientListener`: connections, responses, metadata;
- `_tick`: a deadline has passed.

The drain runs in the iteration of the loop in which a batch is opened or full, when a response has freed a slot, when a
connection becomes usable, and when a deadline has passed; so an idle `send()` pays no task switch.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from aioprod._user_code import raise_later
from aioprod.cluster import MetadataUpdate
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError
from aioprod.interceptors import Interceptors
from aioprod.net.client import Client
from aioprod.net.events import ClientListener
from aioprod.net.link import BrokerLink
from aioprod.net.scheduler import Scheduler
from aioprod.net.settings import ClientSettings
from aioprod.producer.backpressure import MemoryWaiters, running_task
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.batch_events import BatchEvents
from aioprod.producer.batching.drain import end_backoffs, schedule_all
from aioprod.producer.batching.lifecycle import expired, next_expiry, withdraw
from aioprod.producer.batching.parking import withdraw_parked
from aioprod.producer.batching.partition import BrokerQueue, Partition
from aioprod.producer.batching.sequences import Sequences
from aioprod.producer.batching.topic_updates import update_topics
from aioprod.producer.completions import Completions
from aioprod.producer.compressor import Compressor
from aioprod.producer.deleted_topics import DeletedTopics
from aioprod.producer.environment import Environment
from aioprod.producer.explain import Explainer
from aioprod.producer.failure_reports import HOUSEKEEPING_S, FailureReports
from aioprod.producer.guard import Guard
from aioprod.producer.logs.callback_faults import CallbackFaults
from aioprod.producer.logs.event_log import EventLog
from aioprod.producer.logs.stall_monitor import StallMonitor
from aioprod.producer.lost_brokers import LostBrokers
from aioprod.producer.mass_failure import MassFailure
from aioprod.producer.meters import Meters
from aioprod.producer.outcomes import FAILED_PER_TURN, Outcomes
from aioprod.producer.producer_id import ProducerIdKeeper
from aioprod.producer.resolver import Resolver
from aioprod.producer.sender import Sender
from aioprod.producer.settings import SenderSettings, accumulator_settings
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.producer.unknown_topics import UnknownTopics
from aioprod.records.compression import Compression
from aioprod.types import ErrorCallback

if TYPE_CHECKING:
    from aioprod.producer.held_outcomes import HeldOutcomes

__all__ = ["Pipeline"]


class Pipeline(ClientListener, BatchEvents):
    """Moves records from the accumulator to the brokers, and their outcomes to the completions."""

    def __init__(
        self,
        config: ProducerConfig,
        settings: SenderSettings,
        environment: Environment,
        *,
        loop: asyncio.AbstractEventLoop,
        meters: Meters,
        guard: Guard,
        rules: TransactionRules,
        interceptors: Interceptors,
        partitioner: Any,
        on_error: ErrorCallback | None,
        on_failure: Callable[[BaseException], None],
        on_metadata: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.environment = environment
        self.clock = clock = environment.clock.seconds
        """Monotonic time in seconds."""
        self._meters = meters
        self._on_failure = on_failure
        """Takes the cause when something goes wrong that no record is to blame for."""
        self._on_metadata = on_metadata
        """Called after each answer with metadata."""
        self._settings = settings
        self._log = EventLog()
        self.scheduler = Scheduler(loop, clock)
        self.compressor = self._compressor(environment, loop)
        self.client = Client(
            ClientSettings.from_config(config), loop=loop, clock=clock, random=environment.random, listener=self
        )
        self.accumulator = accumulator = Accumulator(
            accumulator_settings(config),
            metadata=self.client.metadata,
            random=environment.random,
            events=self,
            due=self.scheduler.wake_at,
            partitioner=partitioner,
            compress=None if self.compressor is None else self.compressor.add,
            sequences=self._sequences(config, rules),
            caller=running_task,
        )
        self.memory_waiters = MemoryWaiters(
            accumulator.budget, loop, clock, partial(schedule_all, accumulator), meters.buffer_wait_ns
        )
        faults = CallbackFaults(clock)
        self.failure_reports = FailureReports(on_error, clock=clock, scheduler=self.scheduler, callback_faults=faults)
        self.completions = self._completions(interceptors, faults, rules)
        self.resolver = Resolver(config, clock=clock, random=environment.random)
        self.held = self._held_outcomes(config)
        """None without `resolve.unknown.outcomes`."""
        self.done = self.completions if self.held is None else self.held
        """It takes the batches that need no request any more, and has them while their records have no outcome."""
        self.outcomes = self._outcomes(rules)
        self.unknown_topics = UnknownTopics(
            accumulator, self.completions, clock=clock, guard=guard, describe=self.client.describe
        )
        self.producer_id = self._id_keeper(config, loop)
        """None without idempotence and with transactions."""
        self.sender = self._sender(loop)
        self._deleted = DeletedTopics(accumulator, self.outcomes, self.unknown_topics)
        self._stalls = StallMonitor(accumulator, self.outcomes.explainer, clock())
        self._lost_brokers = LostBrokers(self.client, accumulator, clock)

    def _completions(self, interceptors: Interceptors, faults: CallbackFaults, rules: TransactionRules) -> Completions:
        return Completions(
            self.accumulator,
            loop=self.loop,
            clock=self.clock,
            interceptors=interceptors,
            reports=self.failure_reports,
            callback_faults=faults,
            rules=rules,
            meters=self._meters,
            memory_waiters=self.memory_waiters,
            on_failure=self._broken,
        )

    def _held_outcomes(self, config: ProducerConfig) -> HeldOutcomes | None:
        if not config.resolve_unknown_outcomes:
            return None
        from aioprod.producer.held_outcomes import HeldOutcomes  # Few producers have them.

        return HeldOutcomes(
            config,
            self.resolver,
            self.completions,
            share=self.accumulator.budget.stuck,
            meters=self._meters,
            event_log=self._log,
            clock=self.clock,
            due=self.scheduler.wake_at,
        )

    def _outcomes(self, rules: TransactionRules) -> Outcomes:
        return Outcomes(
            self._settings,
            accumulator=self.accumulator,
            unknown=self.resolver.unknown,
            completions=self.done,
            meters=self._meters,
            explainer=Explainer(
                self._settings, accumulator=self.accumulator, client=self.client, rules=rules, clock=self.clock
            ),
            event_log=self._log,
            rules=rules,
            backoff=self.client.backoff_s,
            scheduler=self.scheduler,
            unforeseen=self.client.unforeseen,
        )

    def _sequences(self, config: ProducerConfig, rules: TransactionRules) -> Sequences | None:
        return Sequences(self, rules, transactional=self._settings.transactional) if config.enable_idempotence else None

    def _compressor(self, environment: Environment, loop: asyncio.AbstractEventLoop) -> Compressor | None:
        settings = self._settings
        if settings.codec == Compression.NONE:
            return None
        return Compressor(settings.codec, settings.compression_level, environment, loop=loop, ended=self._compressed)

    def _id_keeper(self, config: ProducerConfig, loop: asyncio.AbstractEventLoop) -> ProducerIdKeeper | None:
        if not config.enable_idempotence or self._settings.transactional:
            return None
        return ProducerIdKeeper(self.client, self.accumulator, loop=loop, on_failure=self._on_failure)

    def _sender(self, loop: asyncio.AbstractEventLoop) -> Sender:
        return Sender(
            self._settings,
            client=self.client,
            accumulator=self.accumulator,
            completions=self.completions,
            outcomes=self.outcomes,
            meters=self._meters,
            compressor=self.compressor,
            clock=self.clock,
            turn=loop.call_soon,
            wake_at=self.scheduler.wake_at,
            on_failure=self._broken,
        )

    def _compressed(self, batch: Batch, error: Exception | None) -> None:
        self.sender.compression_ended(batch, error)

    def close(self) -> None:
        """End the threads: every record has its outcome."""
        if self.compressor is not None:
            self.compressor.close()

    # --- failure

    def fail_some(self, reason: MassFailure) -> bool:
        """Fail some of the records that `reason` concerns, for some milliseconds; True if there may be more."""
        are_left = self.held is not None and self.held.end()
        are_parked = self.unknown_topics.fail_topics(reason)
        are_held = self.outcomes.fail_batches(reason, self.clock())
        self.completions.run()
        return are_left or are_parked or are_held

    # --- deadlines

    async def run(self) -> None:
        """Do what is due whenever something is, for ever."""
        await self.scheduler.run(self._timed_tick)

    def _timed_tick(self, now: float) -> float:
        due = self._tick(now)
        self._meters.loop_hold.record((self.clock() - now) * 1000)
        return due

    def _tick(self, now: float) -> float:
        """Do everything that is due; returns when the next thing will be."""
        accumulator = self.accumulator
        for batch in expired(accumulator, now, FAILED_PER_TURN):
            self.outcomes.expire(batch, now)
        nexts = [
            self._lost_brokers.poll(now),
            self.client.poll(now),
            end_backoffs(accumulator, now),
            self._deleted.fail_held(now),
            accumulator.stuck.poll(now),
            self.unknown_topics.move_on(now),
            next_expiry(accumulator),
            self._stalls.poll(now),
            self.resolver.unknown.poll(now),
            None if self.held is None else self.held.poll(now),
        ]
        nexts += [self._attend(queue, now) for queue in accumulator.queues.values() if queue.has_work()]
        if self.failure_reports.unread:
            were_all_looked_at = self.failure_reports.report_unread(closing=False)
            nexts.append(now + HOUSEKEEPING_S if were_all_looked_at else now)
        self.completions.run()
        self.memory_waiters.freed()
        return min((due for due in nexts if due is not None), default=math.inf)

    def _attend(self, queue: BrokerQueue, now: float) -> float:
        """Send what is due on one queue; returns when it needs attention again, infinite if not.

        What could not be sent now is looked at again when an answer, a connection or metadata come.
        """
        due = queue.next_due()
        if queue.ready or due <= now:
            self.sender.serve(queue)
            due = queue.next_due()
        return due if due > now else math.inf

    def _broken(self, error: BaseException) -> None:
        """Fail by an error of our own making: no waiter may be left. A KeyboardInterrupt ends the loop after that."""
        self._on_failure(error)
        raise_later(error)

    # --- BatchEvents

    def drain_soon(self, queue: BrokerQueue) -> None:
        self.sender.drain_soon(queue)

    def withdraw(self, waiter: Any, owner: Batch | ParkedRecord) -> None:
        """Take the record of a cancelled future back if it was not sent yet."""
        if isinstance(owner, ParkedRecord):
            if owner.moved_to is None:
                withdraw_parked(self.accumulator, owner)
                self.memory_waiters.freed()
                return
            owner = owner.moved_to
        if withdraw(self.accumulator, owner, waiter, self.clock()):
            self.memory_waiters.freed()

    def leader_changed(self, partition: Partition, old: BrokerQueue | None) -> None:
        self._log.moved(partition, old, self.clock())

    def epoch_bumped(self, partition: Partition) -> None:
        self._log.bumped(partition, self.clock())

    def retry_unsafe(self, batch: Batch) -> None:
        self.outcomes.fail_unsafe(batch, self.clock())

    def producer_id_needed(self) -> None:
        """Request another producer id; with transactions the coordinator gives one with the next epoch."""
        if self.producer_id is not None:
            self.producer_id.renew()

    def partitioner_raised(self, error: BaseException) -> None:
        raise_later(error)

    # --- ClientListener

    def link_ready(self, link: BrokerLink) -> None:
        self._meters.connected(link.node.id)
        self._lost_brokers.back(link)
        self.sender.refill(link.node.id)

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        self._meters.disconnected(link.node.id)
        queue = self.accumulator.queues.get(link.node.id)
        if queue is not None:
            queue.lost_at = self.clock()
        self._lost_brokers.lost(link, error)
        self.completions.schedule()
        self.scheduler.wake()

    def link_data(self, link: BrokerLink, now: float) -> None:
        """Refill the wire first, then complete the records that were acknowledged."""
        self.sender.refill(link.node.id)
        self.completions.run_guarded()
        self._meters.loop_hold.record((self.clock() - now) * 1000)

    def link_writable(self, link: BrokerLink) -> None:
        self.sender.refill(link.node.id)

    def metadata_changed(self, update: MetadataUpdate) -> None:
        """Follow the leaders, and send the records that were parked for new topics."""
        now = self.clock()
        self._lost_brokers.metadata_changed()
        update_topics(self.accumulator, update.changed_topics, now)
        if update.recreated:
            self.outcomes.recreated(update.recreated, now)
            self.completions.schedule()
        if self._settings.transactional or not self._settings.follows_recreated:
            self._deleted.suspect(update.errors)
        self.unknown_topics.changed()
        self._on_metadata()
        self.scheduler.wake()

    def wake(self) -> None:
        self.scheduler.wake()

    def failed(self, error: BaseException) -> None:
        self._on_failure(error)
