"""The sender: one supervised coroutine that owns every deadline, and the drain that it shares with the event loop.

The drain is a plain function over the ready lists. It runs when a batch is opened or finished (by `call_soon`, once per
turn of the loop), when an answer has freed a slot, when a connection becomes usable, and from the coroutine when a
deadline has passed; so an idle `send()` pays no task switch.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial

from aioprod.cluster import MetadataUpdate
from aioprod.core.accumulator import Accumulator
from aioprod.core.batch import Batch
from aioprod.core.drain import drain, end_backoffs
from aioprod.core.lifecycle import expired, land, next_expiry
from aioprod.core.partition import BrokerQueue
from aioprod.core.produce import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, encode_produce
from aioprod.errors import AioprodError
from aioprod.messages import ProduceRequest
from aioprod.net.client import Client, ClientListener
from aioprod.net.connection import BrokerConnection
from aioprod.net.pool import BrokerLink
from aioprod.producer.meters import Meters
from aioprod.producer.outcome import Outcomes
from aioprod.producer.results import Delivery
from aioprod.producer.room import Room
from aioprod.producer.settings import SenderSettings
from aioprod.producer.topics import Topics
from aioprod.wire.buffer import Buffer

__all__ = ["Sender"]

HOUSEKEEPING_S = 1.0
"""How often failed futures that were dropped are looked for, while there are any."""


class Sender(ClientListener):
    """Moves batches from the accumulator to the brokers and their outcomes to the delivery.

    `on_failure` is called with the cause when something here goes wrong that no record is to blame for.
    """

    _client: Client
    _accumulator: Accumulator
    _delivery: Delivery
    _outcomes: Outcomes
    _topics: Topics
    _room: Room

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
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self.closing = False

    def attach(
        self,
        client: Client,
        accumulator: Accumulator,
        delivery: Delivery,
        outcomes: Outcomes,
        topics: Topics,
        room: Room,
    ) -> None:
        """Get to know the parts that call back here."""
        self._client = client
        self._accumulator = accumulator
        self._delivery = delivery
        self._outcomes = outcomes
        self._topics = topics
        self._room = room

    # --- the coroutine

    async def run(self) -> None:
        """Do what is due, sleep until the next thing is, for ever."""
        while True:
            self._due = math.inf
            # What the work makes due meanwhile counts too.
            self._due = min(self._tick(self._clock()), self._due)
            await self._sleep()

    async def _sleep(self) -> None:
        delay = self._due - self._clock()
        if delay <= 0.0:
            await asyncio.sleep(0)
            return
        self._sleeper = self._loop.create_future()
        if delay < math.inf:
            self._timer = self._loop.call_later(delay, self.wake)
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
            self._timer = self._loop.call_later(max(0.0, due - self._clock()), self.wake)

    def _tick(self, now: float) -> float:
        """Do everything that is due; when the next thing will be."""
        accumulator = self._accumulator
        for batch in expired(accumulator, now):
            self._outcomes.expire(batch, now)
        nexts = [
            self._client.poll(now),
            end_backoffs(accumulator, now),
            self._topics.move_on(now),
            next_expiry(accumulator),
        ]
        nexts += [self._attend(queue, now) for queue in accumulator.queues.values() if queue.has_work()]
        if self._delivery.unseen:
            self._delivery.report_unseen(closing=False)
            nexts.append(now + HOUSEKEEPING_S)
        self._delivery.run()
        return min((due for due in nexts if due is not None), default=math.inf)

    def _attend(self, queue: BrokerQueue, now: float) -> float | None:
        """Send what is due on one queue; when it needs attention again.

        What could not be sent now is looked at again when an answer, a connection or metadata come.
        """
        due = queue.next_due()
        if queue.ready or (due is not None and due <= now):
            self.drain(queue)
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
        self._loop.call_soon(self.drain, queue)

    def drain(self, queue: BrokerQueue) -> None:
        """Send what may leave now to one broker."""
        queue.scheduled = False
        try:
            self._drain(queue, self._clock())
        except Exception as error:
            self._on_failure(error)

    def _drain(self, queue: BrokerQueue, now: float) -> None:
        if not queue.has_work():
            queue.stalled_since = None
            return
        link = self._client.link(queue.node_id)
        if link is None:
            metadata = self._accumulator.metadata
            if metadata.next_refresh(now) > now:
                metadata.request_update(now)
                self.wake_at(metadata.next_refresh(now))
            return
        if not link.ensure(now):
            self._stall(queue, now)
            return
        connection = link.connection
        assert connection is not None
        settings = self._settings
        while (
            queue.in_flight < settings.in_flight_max
            and connection.can_write
            and connection.throttled_until <= now
            and not connection.closed
        ):
            batches = drain(self._accumulator, queue, now, settings.max_request_size, self._cut(queue))
            if not batches:
                break
            self._transmit(queue, link, connection, batches, now)
        if queue.ready:
            self._stall(queue, now)
        due = queue.next_due()
        if due is not None and due > now:
            self.wake_at(due)

    def _cut(self, queue: BrokerQueue) -> bool:
        """Whether batches that are not full may leave: the linger is Nagle's unless it is fixed."""
        if self.closing or self._settings.linger_s == 0.0 or self._room.is_wanted:
            return True
        return self._settings.adaptive_linger and queue.in_flight == 0

    def _stall(self, queue: BrokerQueue, now: float) -> None:
        if queue.stalled_since is None:
            queue.stalled_since = now

    def _transmit(
        self, queue: BrokerQueue, link: BrokerLink, connection: BrokerConnection, batches: list[Batch], now: float
    ) -> None:
        settings = self._settings
        queue.stalled_since = None
        try:
            version = self._version(connection, batches)
            for batch in batches:
                batch.broker = link.node.id
                if not batch.sealed:
                    batch.builder.seal(codec=settings.codec, level=settings.compression_level)
                    batch.sealed = True
            parts, size = encode_produce(version, settings.acks, settings.request_timeout_ms, batches)
        except Exception as error:
            self._outcomes.unsendable(batches, error, now)
            self._delivery.schedule()
            return
        self._meters.sent(batches, now)
        for batch in batches:
            batch.unanswered = True
        flexible = version >= FIRST_FLEXIBLE
        queue.in_flight += settings.acks != 0
        connection.send_parts(
            ProduceRequest.API_KEY,
            version,
            flexible,
            parts,
            size,
            partial(self._answered, queue, connection, version, batches, now),
            timeout_s=settings.request_timeout_s,
            expect_response=settings.acks != 0,
        )
        if settings.acks == 0:
            for batch in batches:
                if land(self._accumulator, batch, now):
                    self._outcomes.deliver(batch, -1, -1, now)
            self._delivery.schedule()

    def _version(self, connection: BrokerConnection, batches: list[Batch]) -> int:
        """The Produce version: the newest that both know, without topic ids where one of them is not known."""
        version = connection.versions.pick(ProduceRequest)
        if version >= FIRST_WITH_TOPIC_IDS and any(batch.topic_id is None for batch in batches):
            return connection.versions.pick(ProduceRequest, at_most=FIRST_WITH_TOPIC_IDS - 1)
        return version

    def _answered(
        self,
        queue: BrokerQueue,
        connection: BrokerConnection,
        version: int,
        batches: list[Batch],
        sent_at: float,
        body: Buffer | None,
        error: AioprodError | None,
    ) -> None:
        queue.in_flight -= 1
        now = self._clock()
        if body is None:
            assert error is not None
            self._outcomes.lost(batches, error, now)
            return
        throttle_time_ms = self._outcomes.answered(batches, body, version, now)
        connection.throttle(ProduceRequest.API_KEY, version, throttle_time_ms)
        self._meters.answered(now - sent_at, throttle_time_ms)

    # --- ClientListener

    def link_ready(self, link: BrokerLink) -> None:
        """A broker can be sent to."""
        self._meters.connected(link.node.id)
        self._refill(link)

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        """A connection is gone and every request on it has been completed, or none could be made."""
        self._meters.disconnected(link.node.id)
        self._delivery.run()
        self.wake()

    def link_data(self, link: BrokerLink) -> None:
        """Answers came in: first refill the wire, then tell the outcomes."""
        self._refill(link)
        self._delivery.run()

    def link_writable(self, link: BrokerLink) -> None:
        """The socket takes bytes again, or a throttle has ended."""
        self._refill(link)

    def _refill(self, link: BrokerLink) -> None:
        queue = self._accumulator.queues.get(link.node.id)
        if queue is not None:
            self.drain(queue)

    def metadata_changed(self, update: MetadataUpdate) -> None:
        """Follow the leaders, and let parked records move on."""
        now = self._clock()
        self._accumulator.update_topics(update.changed_topics, now)
        if update.recreated:
            self._outcomes.fail_recreated(update.recreated, now)
            self._delivery.schedule()
        self._on_metadata(update)
        self.wake()

    def failed(self, error: BaseException) -> None:
        """A background task of the client died."""
        self._on_failure(error)
