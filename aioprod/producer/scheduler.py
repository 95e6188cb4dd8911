"""The sender: one supervised coroutine that owns every deadline, and sees to it that the queues are drained.

The drain (`sender`) is a plain function over the ready lists. It runs when a batch is opened or finished (by
`call_soon`, once per turn of the loop), when an answer has freed a slot, when a connection becomes usable, and from the
coroutine when a deadline has passed; so an idle `send()` pays no task switch.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from aioprod.cluster import MetadataUpdate
from aioprod.core.accumulator import Accumulator
from aioprod.core.batch import Batch
from aioprod.core.drain import end_backoffs
from aioprod.core.lifecycle import expired, next_expiry
from aioprod.core.partition import BrokerQueue
from aioprod.errors import AioprodError
from aioprod.net.client import Client
from aioprod.net.events import ClientListener
from aioprod.net.link import BrokerLink
from aioprod.producer.backpressure import MemoryWaiters
from aioprod.producer.completions import Completions
from aioprod.producer.compressor import Compressor
from aioprod.producer.deleted_topics import DeletedTopics
from aioprod.producer.logs.outages import Outages
from aioprod.producer.logs.stall_monitor import StallMonitor
from aioprod.producer.meters import Meters
from aioprod.producer.outcomes import FAILED_PER_TURN, Outcomes
from aioprod.producer.sender import Sender
from aioprod.producer.settings import SenderSettings
from aioprod.producer.unknown_topics import UnknownTopics
from aioprod.records.compression import Compression

__all__ = ["Scheduler"]

HOUSEKEEPING_S = 1.0
"""How often failed futures that were dropped are looked for, while there are any."""

TIMER_LATE_S = 0.0005
"""uvloop rounds delays to whole milliseconds: without this a timer may ring before what it is for is due."""


class Scheduler(ClientListener):
    """Moves batches from the accumulator to the brokers and their outcomes to the delivery.

    `on_failure` is called with the cause when something here goes wrong that no record is to blame for.
    """

    _client: Client
    _accumulator: Accumulator
    _delivery: Completions
    _outcomes: Outcomes
    _topics: UnknownTopics
    _sender: Sender
    _outages: Outages
    _watch: StallMonitor
    _deleted: DeletedTopics

    def __init__(
        self,
        settings: SenderSettings,
        *,
        meters: Meters,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        on_failure: Callable[[BaseException], None],
        on_metadata: Callable[[MetadataUpdate], None],
    ) -> None:
        self._settings = settings
        self._meters = meters
        self._loop = loop
        self._clock = clock
        self._on_failure = on_failure
        self._on_metadata = on_metadata
        self._compressor: Compressor | None = None
        if settings.codec != Compression.NONE:
            self._compressor = Compressor(settings.codec, settings.compression_level, loop=loop, ended=self._compressed)
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._sleeper: asyncio.Future[None] | None = None

    def attach(
        self,
        client: Client,
        accumulator: Accumulator,
        delivery: Completions,
        outcomes: Outcomes,
        topics: UnknownTopics,
        room: MemoryWaiters,
    ) -> None:
        """Get to know the parts that call back here."""
        self._client = client
        self._accumulator = accumulator
        self._delivery = delivery
        self._outcomes = outcomes
        self._topics = topics
        self._deleted = DeletedTopics(accumulator, outcomes, topics)
        self._watch = StallMonitor(accumulator, outcomes.explainer, self._clock())
        self._outages = Outages(client, accumulator, self._clock)
        self._sender = Sender(
            self._settings,
            client=client,
            accumulator=accumulator,
            delivery=delivery,
            outcomes=outcomes,
            room=room,
            meters=self._meters,
            compressor=self._compressor,
            clock=self._clock,
            turn=self._loop.call_soon,
            wake_at=self.wake_at,
            on_failure=self._on_failure,
        )

    @property
    def compress(self) -> Callable[[Batch], None] | None:
        """What is to be called with each batch that is finished, None if nothing is compressed."""
        return None if self._compressor is None else self._compressor.add

    def _compressed(self, batch: Batch, error: Exception | None) -> None:
        self._sender.come_back(batch, error)

    def hurry(self) -> None:
        """Nothing lingers any more."""
        self._sender.closing = True

    def limit_produce(self, version_max: int) -> None:
        """Use no newer Produce version than this."""
        self._sender.version_max = version_max

    def close(self) -> None:
        """Everything has its outcome: end the threads."""
        if self._compressor is not None:
            self._compressor.close()

    # --- the coroutine

    async def run(self) -> None:
        """Do what is due, sleep until the next thing is, for ever."""
        while True:
            self._due = math.inf
            # What the work makes due meanwhile counts too.
            start = self._clock()
            self._due = min(self._tick(start), self._due)
            self._meters.held(self._clock() - start)
            await self._sleep()

    async def _sleep(self) -> None:
        delay = self._due - self._clock()
        if delay <= 0.0:
            await asyncio.sleep(0)
            return
        self._sleeper = self._loop.create_future()
        if delay < math.inf:
            self._timer = self._loop.call_later(delay + TIMER_LATE_S, self.wake)
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def wake(self) -> None:
        """Something may be due now."""
        if self._sleeper is None:
            self._due = -math.inf
        elif not self._sleeper.done():
            self._sleeper.set_result(None)

    def watch_unseen(self) -> None:
        """Look in a while for failed futures that were dropped."""
        self.wake_at(self._clock() + HOUSEKEEPING_S)

    def wake_at(self, due: float) -> None:
        """Something will be due at `due`; earlier deadlines stay."""
        if due >= self._due:
            return
        self._due = due
        if self._sleeper is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(max(0.0, due - self._clock()) + TIMER_LATE_S, self.wake)

    def _tick(self, now: float) -> float:
        """Do everything that is due; when the next thing will be."""
        accumulator = self._accumulator
        for batch in expired(accumulator, now, FAILED_PER_TURN):
            self._outcomes.expire(batch, now)
        nexts = [
            self._outages.poll(now),
            self._client.poll(now),
            end_backoffs(accumulator, now),
            self._deleted.give_up(now),
            self._topics.move_on(now),
            next_expiry(accumulator),
            self._watch.poll(now),
        ]
        nexts += [self._attend(queue, now) for queue in accumulator.queues.values() if queue.has_work()]
        if self._delivery.unseen:
            were_all_looked_at = self._delivery.report_unseen(closing=False)
            nexts.append(now + HOUSEKEEPING_S if were_all_looked_at else now)
        self._delivery.run()
        return min((due for due in nexts if due is not None), default=math.inf)

    def _attend(self, queue: BrokerQueue, now: float) -> float | None:
        """Send what is due on one queue; when it needs attention again.

        What could not be sent now is looked at again when an answer, a connection or metadata come.
        """
        due = queue.next_due()
        if queue.ready or (due is not None and due <= now):
            self._sender.serve(queue)
            due = queue.next_due()
        return due if due is not None and due > now else None

    # --- the drain

    def press(self) -> None:
        """Somebody waits for memory: what lingers leaves."""
        for queue in self._accumulator.queues.values():
            if queue.has_work():
                queue.schedule()

    def schedule(self, queue: BrokerQueue) -> None:
        """Something of this queue may leave: drain it in this turn of the loop."""
        self._sender.schedule(queue)

    # --- ClientListener

    def link_ready(self, link: BrokerLink) -> None:
        """A broker can be sent to."""
        self._meters.connected(link.node.id)
        self._outages.back(link)
        self._refill(link)

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        """A connection is gone and every request on it has been completed, or none could be made."""
        self._meters.disconnected(link.node.id)
        self._outages.lost(link, error)
        self._delivery.run()
        self.wake()

    def link_data(self, link: BrokerLink) -> None:
        """Answers came in: first refill the wire, then tell the outcomes."""
        self._refill(link)
        self._delivery.run()
        self._sender.rest()

    def link_writable(self, link: BrokerLink) -> None:
        """The socket takes bytes again, or a throttle has ended."""
        self._refill(link)

    def _refill(self, link: BrokerLink) -> None:
        queue = self._accumulator.queues.get(link.node.id)
        if queue is not None:
            self._sender.serve(queue)

    def metadata_changed(self, update: MetadataUpdate) -> None:
        """Follow the leaders, and let parked records move on."""
        now = self._clock()
        self._outages.named_anew()
        self._accumulator.update_topics(update.changed_topics, now)
        if update.recreated:
            self._outcomes.recreated(update.recreated, now)
            self._delivery.schedule()
        if self._settings.transactional or not self._settings.follows_recreated:
            self._deleted.suspect(update.errors)
        self._on_metadata(update)
        self.wake()

    def failed(self, error: BaseException) -> None:
        """A background task of the client died."""
        self._on_failure(error)
