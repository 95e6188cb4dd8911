"""The drain: what may leave now is sent to its broker, and the answers are read."""

from __future__ import annotations

from collections.abc import Callable

from aioprod.core.accumulator import Accumulator
from aioprod.core.answer import read_plain
from aioprod.core.batch import Batch
from aioprod.core.drain import drain
from aioprod.core.lifecycle import land
from aioprod.core.partition import BrokerQueue
from aioprod.core.produce import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, encode_produce
from aioprod.errors import AioprodError
from aioprod.messages import ProduceRequest
from aioprod.net.client import Client
from aioprod.net.connection import BrokerConnection
from aioprod.producer.meters import Meters
from aioprod.producer.outcome import Outcomes
from aioprod.producer.results import Delivery
from aioprod.producer.room import Room
from aioprod.producer.settings import SenderSettings
from aioprod.wire.buffer import Buffer

__all__ = ["Dispatch"]


class Dispatch:
    """Moves batches from the queues of the accumulator to the brokers, and reads what they answer.

    `wake_at` is called with the time of a deadline, in monotonic seconds; `on_failure` with the cause when something
    here goes wrong that no record is to blame for. `closing`: nothing lingers any more.
    """

    __slots__ = (
        "_accumulator",
        "_client",
        "_clock",
        "_delivery",
        "_meters",
        "_on_failure",
        "_outcomes",
        "_room",
        "_settings",
        "_wake_at",
        "closing",
    )

    def __init__(
        self,
        settings: SenderSettings,
        *,
        client: Client,
        accumulator: Accumulator,
        delivery: Delivery,
        outcomes: Outcomes,
        room: Room,
        meters: Meters,
        clock: Callable[[], float],
        wake_at: Callable[[float], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._client = client
        self._accumulator = accumulator
        self._delivery = delivery
        self._outcomes = outcomes
        self._room = room
        self._meters = meters
        self._clock = clock
        self._wake_at = wake_at
        self._on_failure = on_failure
        self.closing = False

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
                self._wake_at(metadata.next_refresh(now))
            return
        if not link.ensure(now):
            self._stall(queue, now)
            return
        connection = link.connection
        assert connection is not None
        settings = self._settings
        while (
            queue.has_work()
            and queue.in_flight < settings.in_flight_max
            and connection.can_write
            and connection.throttled_until <= now
            and not connection.closed
        ):
            batches = drain(self._accumulator, queue, now, settings.max_request_size, self._cut(queue))
            if not batches:
                break
            self._transmit(queue, connection, batches, now)
        if queue.ready:
            self._stall(queue, now)
        due = queue.next_due()
        if due is not None and due > now:
            self._wake_at(due)

    def _cut(self, queue: BrokerQueue) -> bool:
        """Whether batches that are not full may leave: the linger is Nagle's unless it is fixed."""
        if self.closing or self._settings.linger_s == 0.0 or self._room.is_wanted:
            return True
        return self._settings.adaptive_linger and queue.in_flight == 0

    def _stall(self, queue: BrokerQueue, now: float) -> None:
        if queue.stalled_since is None:
            queue.stalled_since = now

    def _transmit(self, queue: BrokerQueue, connection: BrokerConnection, batches: list[Batch], now: float) -> None:
        settings = self._settings
        queue.stalled_since = None
        try:
            version = self._version(connection, batches)
            for batch in batches:
                batch.broker = queue.node_id
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
        expects = settings.acks != 0
        queue.in_flight += expects
        connection.send_parts(
            ProduceRequest.API_KEY,
            version,
            version >= FIRST_FLEXIBLE,
            parts,
            size,
            Sent(self, queue, connection, version, batches, now),
            timeout_s=settings.request_timeout_s,
            expect_response=expects,
        )
        if not expects:
            for batch in batches:
                if land(self._accumulator, batch, now):
                    self._outcomes.deliver(batch, -1, -1, now)
            self._delivery.schedule()

    def _version(self, connection: BrokerConnection, batches: list[Batch]) -> int:
        """The Produce version: the newest that both know, without topic ids where one of them is not known."""
        version = connection.versions.pick(ProduceRequest)
        if version >= FIRST_WITH_TOPIC_IDS:
            for batch in batches:
                if batch.topic_id is None:
                    return connection.versions.pick(ProduceRequest, at_most=FIRST_WITH_TOPIC_IDS - 1)
        return version

    def answered(self, sent: Sent, body: Buffer | None, error: AioprodError | None) -> None:
        """A request was answered with `body`, or never will be because of `error`."""
        sent.queue.in_flight -= 1
        now = self._clock()
        batches = sent.batches
        if body is None:
            assert error is not None
            self._outcomes.lost(batches, error, now)
            return
        plain = read_plain(sent.version, body, batches)
        if plain is None:
            throttle_time_ms = self._outcomes.answered(batches, body, sent.version, now)
        else:
            throttle_time_ms = plain.throttle_time_ms
            for place, batch in enumerate(batches):
                if land(self._accumulator, batch, now):
                    self._outcomes.deliver(batch, plain.base_offsets[place], plain.append_times[place], now)
        if throttle_time_ms > 0:
            sent.connection.throttle(ProduceRequest.API_KEY, sent.version, throttle_time_ms)
        self._meters.answered(now - sent.sent_at, throttle_time_ms)


class Sent:
    """A Produce request that was sent: called once, with the body of its answer or with the reason why none comes."""

    __slots__ = ("batches", "connection", "dispatch", "queue", "sent_at", "version")

    def __init__(
        self,
        dispatch: Dispatch,
        queue: BrokerQueue,
        connection: BrokerConnection,
        version: int,
        batches: list[Batch],
        sent_at: float,
    ) -> None:
        self.dispatch = dispatch
        self.queue = queue
        self.connection = connection
        self.version = version
        self.batches = batches
        self.sent_at = sent_at

    def __call__(self, body: Buffer | None, error: AioprodError | None) -> None:
        self.dispatch.answered(self, body, error)
