"""Drains queues into Produce requests, and reads the usual responses."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from aioprod.errors import AioprodError
from aioprod.messages import ProduceRequest
from aioprod.messages.negotiation import ApiVersions
from aioprod.net.client import Client
from aioprod.net.connection import BrokerConnection
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.drain import drain
from aioprod.producer.batching.lifecycle import compressed
from aioprod.producer.batching.partition import BrokerQueue
from aioprod.producer.batching.produce import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, ProduceEncoder, read_plain
from aioprod.producer.completions import Completions
from aioprod.producer.compressor import Compressor
from aioprod.producer.meters import Meters
from aioprod.producer.outcomes import Outcomes
from aioprod.producer.settings import SenderSettings
from aioprod.wire.buffer import Buffer

__all__ = ["Sender"]

TURN_S: Final = 0.004
"""How long requests are filled in one iteration of the loop; the request that passes it is finished."""
RAW_BATCHES: Final = 3
"""How many batches of the largest inline size are compressed in one iteration of the loop."""
_SLOW: Final = 0.125
"""Requests stay small to a broker that answers after this share of `request.timeout.ms`: its link may be full."""


class Sender:
    """Moves batches from the queues of the accumulator to the brokers, and reads their responses."""

    __slots__ = (
        "_accumulator",
        "_adaptive_linger",
        "_client",
        "_clock",
        "_codec",
        "_completions",
        "_compression_level",
        "_compressor",
        "_encoder",
        "_expects_answers",
        "_in_flight_max",
        "_is_closing",
        "_large_request_size",
        "_lingers",
        "_meters",
        "_negotiated",
        "_on_failure",
        "_outcomes",
        "_request_size_max",
        "_request_timeout_s",
        "_scheduled",
        "_transactional",
        "_turn",
        "_version_max",
        "_version_picked",
        "_wake_at",
    )

    def __init__(
        self,
        settings: SenderSettings,
        *,
        client: Client,
        accumulator: Accumulator,
        completions: Completions,
        outcomes: Outcomes,
        meters: Meters,
        compressor: Compressor | None,
        clock: Callable[[], float],
        turn: Callable[[Callable[[], None]], object],
        wake_at: Callable[[float], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._codec = settings.codec
        self._compression_level = settings.compression_level
        self._transactional = settings.transactional
        self._expects_answers = settings.acks != 0
        self._in_flight_max = settings.in_flight_max
        self._request_size_max = settings.max_request_size
        self._large_request_size = settings.large_request_size
        self._request_timeout_s = settings.request_timeout_s
        self._lingers = settings.linger_s > 0.0
        self._adaptive_linger = settings.adaptive_linger
        self._client = client
        self._accumulator = accumulator
        self._completions = completions
        self._outcomes = outcomes
        self._meters = meters
        self._compressor = compressor
        """None where nothing is compressed."""
        self._clock = clock
        """Monotonic time in seconds."""
        self._turn = turn
        """Schedules a call for the next iteration of the loop."""
        self._wake_at = wake_at
        """Takes the time of the next deadline, in monotonic seconds."""
        self._on_failure = on_failure
        """Takes an unexpected exception."""
        self._encoder = ProduceEncoder(settings.acks, settings.request_timeout_ms, settings.transactional_id)
        self._scheduled: deque[BrokerQueue] = deque()
        """The queues that are drained in the next iteration of the loop."""
        self._is_closing = False
        self._version_max = ProduceRequest.VERSIONS[1]
        """The newest Produce version that may be used."""
        self._negotiated: ApiVersions | None = None
        """The versions of the broker for which the Produce version was picked last."""
        self._version_picked = -1
        """That Produce version."""

    def stop_lingering(self) -> None:
        """Send every batch as soon as its broker takes it: the producer closes."""
        self._is_closing = True

    def limit_version(self, version_max: int) -> None:
        """Use no newer Produce version than this: a newer one would add partitions to the transaction (KIP-890)."""
        self._version_max = version_max
        self._negotiated = None

    def drain_soon(self, queue: BrokerQueue) -> None:
        """Drain this queue in the next iteration of the loop."""
        if not self._scheduled:
            self._turn(self._serve_scheduled)
        self._scheduled.append(queue)

    def _serve_scheduled(self) -> None:
        """Drain the scheduled queues, as many as one turn of the loop allows."""
        start = self._clock()
        hold_s = 0.0
        while self._scheduled and hold_s < TURN_S:
            self.serve(self._scheduled[0])
            self._scheduled.popleft()
            hold_s = self._clock() - start
        self._meters.loop_hold.record(hold_s * 1000)
        if self._scheduled:
            try:
                self._turn(self._serve_scheduled)
            except BaseException as error:  # no memory: without this no queue would be drained again
                self._on_failure(error)

    def refill(self, node_id: int) -> None:
        """Send what may be sent to this broker now: a response or a connection made room."""
        queue = self._accumulator.queues.get(node_id)
        if queue is not None:
            self.serve(queue)

    def serve(self, queue: BrokerQueue) -> None:
        """Send the batches of one broker that may be sent now; what takes too long is left to the next iteration."""
        queue.scheduled = False
        try:
            now = self._clock()
            if not queue.has_work():
                queue.stalled_since = None
                return
            link = self._client.link(queue.node_id)
            if link is None:
                metadata = self._accumulator.metadata
                if metadata.next_refresh(now) > now:
                    metadata.request_update(now)
                self._stall(queue, now)
                return
            if not link.ensure(now):
                self._stall(queue, now)
                return
            connection = link.connection
            assert connection is not None
            raw_max = self._large_request_size
            raw_min = 0
            if self._compressor is not None:
                raw_min = self._compressor.inline_size
                raw_max = RAW_BATCHES * raw_min
            has_room = queue.in_flight < self._in_flight_max
            while has_room:
                size_max = self._size_max(queue)
                batches = drain(self._accumulator, queue, now, size_max, raw_max, self._cut(queue))
                if not batches:
                    break
                raw_max -= self._transmit(queue, connection, batches, now)
                if not queue.has_work():
                    break
                if raw_max < raw_min or self._clock() - now >= TURN_S:
                    queue.drain_soon()
                    return
                has_room = queue.in_flight < self._in_flight_max and connection.accepts_request(now)
            if queue.ready:
                self._stall(queue, now)
            due = queue.next_due()
            if now < due < math.inf:
                self._wake_at(due)
        except BaseException as error:
            self._on_failure(error)

    def _size_max(self, queue: BrokerQueue) -> int:
        """How many bytes of several batches the next request takes.

        What the last request in flight leaves behind waits for a round trip, and far away a few requests carry all that
        can be stored in one. But a connection that takes long for what it has gets no more at once.
        """
        is_last = queue.in_flight + 1 >= self._in_flight_max
        if (is_last or queue.pace_s > 0.0) and queue.round_trip_s < self._request_timeout_s * _SLOW:
            return self._large_request_size
        return self._request_size_max

    def _cut(self, queue: BrokerQueue) -> bool:
        """Whether open batches may be sent too, before they are full or have lingered.

        With `adaptive.linger` they may while nothing is in flight to the broker, as with Nagle's algorithm.
        """
        if self._is_closing or not self._lingers or self._accumulator.budget.waiting:
            return True
        return self._adaptive_linger and queue.in_flight == 0

    def _stall(self, queue: BrokerQueue, now: float) -> None:
        if queue.stalled_since is None:
            queue.stalled_since = now

    def _transmit(self, queue: BrokerQueue, connection: BrokerConnection, batches: list[Batch], now: float) -> int:
        """Send one request; returns how many bytes of its records were compressed here."""
        raw = 0
        queue.stalled_since = None
        try:
            version = self._version(connection, batches)
            for batch in batches:
                batch.broker = queue.node_id
                if not batch.sealed:
                    builder = batch.builder
                    if self._compressor is not None and not builder.compressed:
                        raw += builder.size
                        self._compressor.compress(builder)
                    builder.seal(
                        self._codec,
                        self._compression_level,
                        batch.producer_id,
                        batch.epoch,
                        batch.base_sequence,
                        self._transactional,
                    )
                    batch.sealed = True
                elif not batch.stamped:
                    batch.builder.restamp(batch.producer_id, batch.epoch, batch.base_sequence)
                batch.stamped = True
            parts, size = self._encoder.encode(version, batches)
        except Exception as error:
            self._outcomes.unsendable(batches, error, now)
            self._completions.schedule()
            return raw
        self._meters.sent(queue.node_id, batches, now)
        for batch in batches:
            batch.unanswered = True
        if self._expects_answers:
            queue.left(now, self._in_flight_max)
        connection.send_parts(
            ProduceRequest,
            version,
            version >= FIRST_FLEXIBLE,
            parts,
            size,
            Sent(self, queue, connection, version, batches, now),
            timeout_s=self._request_timeout_s,
            expect_response=self._expects_answers,
        )
        if not self._expects_answers:
            for batch in batches:
                self._outcomes.acknowledge(batch, -1, -1, now)
            self._completions.schedule()
        return raw

    def _version(self, connection: BrokerConnection, batches: list[Batch]) -> int:
        """The Produce version: the newest that both know, without topic ids where one of them is not known."""
        if connection.versions is not self._negotiated:
            self._version_picked = connection.versions.pick(ProduceRequest, at_most=self._version_max)
            self._negotiated = connection.versions
        version = self._version_picked
        if version >= FIRST_WITH_TOPIC_IDS:
            for batch in batches:
                if batch.topic_id is None:
                    return connection.versions.pick(ProduceRequest, at_most=FIRST_WITH_TOPIC_IDS - 1)
        return version

    def compression_ended(self, batch: Batch, error: Exception | None) -> None:
        """A thread has compressed a batch: let it be sent, or fail it with the codec's `error`."""
        try:
            now = self._clock()
            if compressed(self._accumulator, batch, now) and error is not None:
                batch.cause = error
                self._outcomes.fail(batch, now, f"the batch could not be compressed: {error}")
                self._completions.schedule()
        except BaseException as failure:
            self._on_failure(failure)

    def answered(self, sent: Sent, body: Buffer | None, error: AioprodError | None) -> None:
        """Handle the response `body` of a request, or the `error` for which none will come."""
        try:
            now = self._clock()
            batches = sent.batches
            sent.queue.landed(batches, now, self._in_flight_max)
            if body is None:
                assert error is not None
                self._outcomes.lost(batches, error, now)
                return
            sent.queue.answered(now - sent.sent_at, self._in_flight_max)
            plain = read_plain(sent.version, body, batches)
            if plain is None:
                throttle_time_ms = self._outcomes.answered(batches, body, sent.version, now)
            else:
                throttle_time_ms = plain.throttle_time_ms
                for place, batch in enumerate(batches):
                    self._outcomes.acknowledge(batch, plain.base_offsets[place], plain.append_times[place], now)
            if throttle_time_ms > 0:
                sent.connection.throttle(ProduceRequest, sent.version, throttle_time_ms)
                self._outcomes.event_log.throttled(sent.connection.peer, throttle_time_ms, now)
            self._meters.answered(sent.queue.node_id, now - sent.sent_at, throttle_time_ms)
        except BaseException as failure:  # of our own making, as what the peer sent was read: no waiter may be left
            self._on_failure(failure)


class Sent:
    """A Produce request in flight: called once, with the body of its response or the error for which none comes."""

    __slots__ = ("batches", "connection", "queue", "sender", "sent_at", "version")

    def __init__(
        self,
        sender: Sender,
        queue: BrokerQueue,
        connection: BrokerConnection,
        version: int,
        batches: list[Batch],
        sent_at: float,
    ) -> None:
        self.sender = sender
        """It takes the response or the error."""
        self.queue = queue
        """The queue of the broker to which the request went."""
        self.connection = connection
        self.version = version
        """The Produce version of the request."""
        self.batches = batches
        """In the order in which the request has them."""
        self.sent_at = sent_at
        """When the request was written, in monotonic seconds."""

    def __call__(self, body: Buffer | None, error: AioprodError | None) -> None:
        self.sender.answered(self, body, error)
