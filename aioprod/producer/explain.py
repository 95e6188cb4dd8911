"""Why a record is not moving, in plain sentences: for `Producer.explain`, for errors and for the log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from aioprod._error_codes import ErrorCode
from aioprod._words import bytes_of, counted, rate_of, seconds_of
from aioprod.errors import AioprodError, UsageError
from aioprod.net.client import Client
from aioprod.net.connection import BrokerConnection
from aioprod.net.link import BrokerLink, LinkState
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import BrokerQueue, Partition, Topic
from aioprod.producer.batching.states import IN_FLIGHT
from aioprod.producer.settings import SenderSettings
from aioprod.producer.transactions.rules import TransactionRules

__all__ = ["Explainer"]

_DAY_S: Final = 86400.0
_LOOKED_AT: Final = 1000
"""Batches in flight are looked for among this many of the oldest ones."""


def _sentence(error: BaseException | str) -> str:
    """What an error says, with one stop at its end."""
    return f"{str(error).rstrip('.')}."


class Explainer:
    """Looks at the parts of a running producer and says what a partition waits for; changes nothing."""

    def __init__(
        self,
        settings: SenderSettings,
        *,
        accumulator: Accumulator,
        client: Client,
        rules: TransactionRules,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._accumulator = accumulator
        self._client = client
        self._rules = rules
        self._clock = clock

    # --- for the user

    def explain(self, topic: str, partition: int) -> str:
        """What is held for a partition, and why it is not moving; also for an unknown topic."""
        if not isinstance(topic, str) or not isinstance(partition, int):
            raise UsageError(f"explain() takes the name of a topic and the number of a partition, not {topic!r}.")
        now = self._clock()
        return " ".join(filter(None, [self._holdings(topic, partition, now), self._memory(), self._credentials()]))

    def _holdings(self, name: str, index: int, now: float) -> str:
        topic = self._accumulator.topics.get(name)
        if topic is None:
            return f"Nothing is held for {name}-{index}: topic {name!r} is not in use by this producer."
        parked = "" if topic.parked is None else self._parked(topic, index, now)
        if not topic.count:
            return f"{parked} {self.topic_unknown(topic, now)}"
        if not 0 <= index < len(topic.partitions):
            missing = f"Topic {name!r} has {counted(topic.count, 'partition')}, so there is no partition {index}."
            return f"{missing} {parked}".rstrip()
        partition = topic.partitions[index]
        held = [batch for batch in self._accumulator.incomplete if batch.partition is partition]
        if not held:
            return parked or f"Nothing is held for {name}-{index}: every record that was accepted has its outcome."
        records = sum(batch.records for batch in held)
        oldest_s = now - min(batch.created for batch in held)
        return (
            f"{counted(records, 'record')} of {name}-{index} in {counted(len(held), 'batch')} "
            f"{'has' if records == 1 else 'have'} no outcome yet after {seconds_of(oldest_s)}. "
            f"{self.why(partition, now)} {parked}"
        ).strip()

    def _parked(self, topic: Topic, index: int, now: float) -> str:
        waiting = [record for record in topic.parked or () if not record.withdrawn and record.partition in (-1, index)]
        if not waiting:
            return f"Nothing is held for {topic.name}-{index}."
        records = counted(len(waiting), "record")
        oldest_s, left_s = now - waiting[0].accepted, waiting[0].deadline - now
        return (
            f"{records} for topic {topic.name!r} {'waits' if len(waiting) == 1 else 'wait'} until its partitions are "
            f"known, the first for {seconds_of(oldest_s)}, and for {seconds_of(max(0.0, left_s))} at most from now on."
        )

    def topic_unknown(self, topic: Topic, now: float) -> str:
        """Why the partitions of a topic are not known."""
        metadata = self._client.metadata
        times = metadata.attempts(topic.name)
        since = metadata.unknown_since(topic.name)
        within = "" if since is None else f" within {seconds_of(now - since)}"
        if not times:
            return f"The metadata of topic {topic.name!r} could not be requested{within}: {self._client.describe()}."
        requested = f"The metadata of topic {topic.name!r} was requested {counted(times, 'time')}{within}"
        code = metadata.topic_error(topic.name)
        if code is not None:
            return f"{requested}; the last answer was {ErrorCode.name_of(code)}."
        if metadata.last_failure is not None:
            return f"{requested}; the last request failed: {_sentence(metadata.last_failure)}"
        return f"{requested}, without an answer so far: {self._client.describe()}."

    def _memory(self) -> str:
        budget = self._accumulator.budget
        waiting = len(budget.waiting) + len(budget.stuck.waiting)
        if not waiting:
            return ""
        calls = f"{counted(waiting, 'call')} {'waits' if waiting == 1 else 'wait'} for room"
        largest = budget.stuck.largest(self._clock())
        return (
            f"{calls}: {counted(budget.records, 'record')} hold {budget.used} of buffer.memory={budget.limit} bytes"
            f"{'; ' + largest if largest else ''}."
        )

    # --- for errors and the log

    def why(self, partition: Partition, now: float) -> str:
        """What a partition for which something is held waits for."""
        reasons = [
            self._rules.explain(partition),
            self._deleted(partition, now),
            self._leader(partition, now),
            self._on_the_way(partition, now),
            self._round_trip(partition),
            self._sequence(partition),
            self._retry(partition, now),
            self._compression(partition),
        ]
        queue = partition.queue
        if queue is not None and not partition.in_flight:
            reasons.append(self.broker(queue, now))
        if queue is not None and not any(reasons):
            reasons.append(self._turn(partition, queue, now))
        return " ".join(reason for reason in reasons if reason)

    def why_expired(self, batch: Batch, now: float) -> str:
        """Why a batch had no outcome when its time was over: its last error, and what it waited for."""
        partition = batch.partition
        last = "" if batch.cause is None else f"Last: {_sentence(batch.cause)}"
        if batch.state == IN_FLIGHT:
            return last or f"Broker {batch.broker} has not answered."
        if last and partition.queue is not None:
            return " ".join(filter(None, (last, self.broker(partition.queue, now))))
        behind = ""
        if partition.in_flight or (partition.queued and partition.queued[0] is not batch):
            behind = "It waited behind earlier records. "
        return f"{last} {behind}{self.why(partition, now)}".strip()

    def last_error(self, batch: Batch) -> AioprodError | None:
        """The last error of the connection to the broker of a batch that was never sent."""
        queue = batch.partition.queue
        link = None if queue is None else self._client.link(queue.node_id)
        return None if link is None or batch.attempts else link.last_error

    def _deleted(self, partition: Partition, now: float) -> str | None:
        """What the cluster says, when it says that it has no such topic any more."""
        topic = partition.topic
        return self.topic_unknown(topic, now) if self._client.metadata.unknown_attempts(topic.name) else None

    def _leader(self, partition: Partition, now: float) -> str | None:
        if partition.queue is not None:
            return None
        metadata = self._client.metadata
        if metadata.is_refreshing:
            again = "metadata is being requested"
        elif metadata.next_refresh(now) <= now:
            again = "metadata is requested again now"
        else:
            again = f"metadata is requested again in {seconds_of(metadata.next_refresh(now) - now)}"
        return f"The partition has no leader, said an answer {seconds_of(metadata.age(now))} ago; {again}."

    def _on_the_way(self, partition: Partition, now: float) -> str | None:
        if not partition.in_flight:
            return None
        brokers = {batch.broker for batch in self._in_flight(partition) if batch.broker is not None}
        if not brokers and partition.queue is not None:
            # The batches in flight have expired, and are no longer among the incomplete ones.
            brokers = {partition.queue.node_id}
        named = " and ".join(f"broker {node_id}" for node_id in sorted(brokers))
        waits = ""
        for node_id in brokers:
            link = self._client.link(node_id)
            if link is not None and link.connection is not None and link.connection.in_flight:
                waits = f", which has owed an answer for {seconds_of(now - link.connection.waits_since)}"
        count = counted(partition.in_flight, "batch")
        return f"{count} {'is' if partition.in_flight == 1 else 'are'} on the way to {named or 'a broker'}{waits}."

    def _round_trip(self, partition: Partition) -> str | None:
        """What the places in flight of a partition allow, where more waits than they take."""
        queue, places = partition.queue, min(partition.in_flight_max, self._settings.in_flight_max)
        if queue is None or partition.in_flight < places or not (partition.queued or partition.open):
            return None
        if not queue.round_trip_s or partition.retrying or not partition.is_established:
            return None
        sizes = [batch.builder.compressed_size for batch in self._in_flight(partition)]
        if not sizes:
            return None
        size, unit = sum(sizes) / len(sizes), self._accumulator.settings.batch_size
        grown = f"; batches have grown from {bytes_of(unit)} to {bytes_of(size)}" if size > unit else ""
        return f"Limited by the round trip: {rate_of(len(sizes), size, queue.round_trip_s)}{grown}."

    def _in_flight(self, partition: Partition) -> list[Batch]:
        """The batches of a partition that wait for an answer, as far as they are among the oldest of all."""
        oldest = islice(self._accumulator.incomplete, _LOOKED_AT)
        return [batch for batch in oldest if batch.partition is partition and batch.state == IN_FLIGHT]

    def _retry(self, partition: Partition, now: float) -> str | None:
        head = partition.queued[0] if partition.queued else None
        parts: list[str] = []
        if head is not None and head.attempts:
            if partition.retry_at > now:
                when = f"in {seconds_of(partition.retry_at - now)}"
            else:
                when = "next" if not partition.in_flight else "after that"
            parts.append(f"Its first batch goes again {when}, as attempt {head.attempts + 1}.")
            if head.cause is not None:
                parts.append(f"Last: {_sentence(head.cause)}")
        elif partition.retrying and partition.in_flight:
            parts.append("Until a batch that was sent again is answered, no later one is sent.")
        return " ".join(parts) or None

    def _sequence(self, partition: Partition) -> str | None:
        sequences = self._accumulator.sequences
        if sequences is None:
            return None
        if sequences.producer_id < 0:
            return "The producer waits for a producer id."
        if partition.unknown_serial >= 0 or partition.gap_from >= 0:
            what = f"A batch of producer epoch {partition.epoch} was lost or rejected before"
            if partition.suspended and not self._settings.transactional:
                return f"{what}, and no epoch is left: a new producer id is requested."
            if partition.suspended:
                return f"{what}: nothing is sent until the transaction is over."
            sent = len(partition.unacknowledged)
            first = f": {counted(sent, 'batch')} sent since {'gets' if sent == 1 else 'get'} an answer" if sent else ""
            return f"{what}{first}; then the partition continues, in a new epoch if need be."
        if partition.in_flight and not partition.is_established and (partition.queued or partition.open is not None):
            return f"One batch at a time is sent until one of producer epoch {partition.epoch} is acknowledged."
        return None

    def _compression(self, partition: Partition) -> str | None:
        if not partition.queued or not partition.queued[0].compressing:
            return None
        raw = partition.queued[0].builder.size
        return f"A thread compresses its first batch of {raw} bytes ({self._settings.codec.name.lower()})."

    # --- the client

    def _credentials(self) -> str | None:
        left_s = self._client.credentials_expire_s
        if left_s is None:
            return None
        span = f"{abs(left_s) / _DAY_S:.1f} days" if abs(left_s) > _DAY_S else seconds_of(abs(left_s))
        when = f"ends in {span}" if left_s > 0 else f"ended {span} ago"
        return f"The certificate or the token of this client {when}."

    # --- the broker

    def broker(self, queue: BrokerQueue, now: float) -> str | None:
        """Why nothing can be sent to a broker now; None if something can."""
        link = self._client.link(queue.node_id)
        if link is None or link.retired:
            return f"Broker {queue.node_id} leads it, and is not one of those that the cluster names now."
        connection = link.connection
        if link.state is LinkState.READY and connection is not None:
            return self._connected(link, connection, queue, now)
        return self._unconnected(link, now)

    def _connected(self, link: BrokerLink, connection: BrokerConnection, queue: BrokerQueue, now: float) -> str | None:
        if connection.closed:
            return f"The connection to {link.peer} is being closed."
        if connection.throttled_until > now:
            return f"{link.peer} throttles this client for another {seconds_of(connection.throttled_until - now)}."
        if connection.is_stopped:
            return f"Another connection to {link.peer} takes over when all that was sent on this one is answered."
        if not connection.can_write:
            return f"{link.peer} takes no more bytes: the buffers of its connection are full."
        if queue.in_flight >= self._settings.in_flight_max:
            return (
                f"{link.peer} has {counted(queue.in_flight, 'request')} to answer, the oldest for "
                f"{seconds_of(now - connection.waits_since)}, and gets no more meanwhile "
                f"(max.in.flight.requests.per.connection={self._settings.in_flight_max})."
            )
        return None

    def _unconnected(self, link: BrokerLink, now: float) -> str:
        last = "" if link.last_error is None else f": {link.last_error.message.rstrip('.')}"
        if link.state is LinkState.BACKOFF and link.backoff_until > now:
            tries = counted(link.attempts, "attempt")
            return (
                f"{link.peer} could not be connected to in {tries}{last}; "
                f"the next one is in {seconds_of(link.backoff_until - now)}."
            )
        if link.state is LinkState.CONNECTING:
            since = seconds_of(now - link.connecting_since)
            tries = f"attempt {link.attempts + 1}"
            return f"{link.peer} is being connected to for {since}, {tries}{last}."
        return f"{link.peer} is not connected{last}."

    def _turn(self, partition: Partition, queue: BrokerQueue, now: float) -> str:
        settings = self._settings
        batch = partition.open
        if partition.queued or batch is None:
            return f"It leaves with the next request to broker {queue.node_id}."
        left_s = batch.created + settings.linger_s - now
        if left_s <= 0.0:
            return f"It leaves with the next request to broker {queue.node_id}."
        until = "" if not settings.adaptive_linger else ", or until a request to its broker is answered"
        return f"Its batch is not full and lingers for another {seconds_of(left_s)} (linger.ms){until}."
