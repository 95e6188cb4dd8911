"""What is queued for one partition, one topic and one broker, and which of it may leave now."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.states import OPEN, QUEUED

if TYPE_CHECKING:
    from aioprod.errors import AioprodError
    from aioprod.producer.batching.size_limit import SizeLimit
    from aioprod.routing.sticky import StickyChoice

__all__ = ["BrokerQueue", "Partition", "Topic"]

_PACE_MIN_S: Final = 0.001

_PATIENCE_S_MIN: Final = 0.1
_PATIENCE_ROUND_TRIPS: Final = 3
"""A broker is stuck that has taken nothing for so long, or for so many round trips."""

_NEVER: Final = math.inf
"""The time of what is not going to happen, in monotonic seconds."""


class BrokerQueue:
    """The partitions of one broker that have something to send; a drain looks at no others.

    A partition that may not send (muted, backing off) is in neither of the two lists.
    """

    __slots__ = (
        "full_s",
        "full_since",
        "in_flight",
        "in_flight_s",
        "in_flight_since",
        "lingering",
        "lost_at",
        "node_id",
        "notify",
        "pace_s",
        "paced_until",
        "ready",
        "round",
        "round_trip_s",
        "scheduled",
        "stalled_since",
        "unfinished",
    )

    def __init__(self, node_id: int, notify: Callable[[BrokerQueue], object]) -> None:
        self.node_id = node_id
        self.notify = notify
        """Has this queue drained in the next iteration of the loop."""
        self.ready: deque[Partition] = deque()
        """Partitions with a batch that is full."""
        self.unfinished: dict[Partition, None] = {}
        """Partitions whose only batch is not full."""
        self.lingering: list[tuple[float, int, Batch]] = []
        """Open batches by the time at which they have lingered enough: a heap, with batches that left since."""
        self.scheduled = False
        """`notify` was called, and the drain has not begun."""
        self.round = 0
        """The number of the last drain."""
        self.in_flight = 0
        """The broker's unanswered Produce requests."""
        self.in_flight_s = 0.0
        """For how long there were any, up to the last answer."""
        self.in_flight_since = 0.0
        """Until when `in_flight_s` is counted, in monotonic seconds."""
        self.full_s = 0.0
        """For how long of that there were as many as there may be while another batch waited."""
        self.full_since = 0.0
        """When there were as many the last time, in monotonic seconds."""
        self.round_trip_s = 0.0
        """How long its answers take: an average of which the last one is an eighth."""
        self.pace_s = 0.0
        """The time between two requests with which the places in flight last for a round trip; 0.0: too short a one."""
        self.paced_until = 0.0
        """Until then full batches stay open for more records, as a request left just now; in monotonic seconds."""
        self.stalled_since: float | None = None
        """When the broker stopped taking what was ready, in monotonic seconds; None while it takes it."""
        self.lost_at = -math.inf
        """When a connection to the broker was lost last, in monotonic seconds."""

    def drain_soon(self) -> None:
        """Schedule a drain, once until it runs."""
        if not self.scheduled:
            self.notify(self)
            self.scheduled = True

    def left(self, now: float, in_flight_max: int) -> None:
        """A request is in flight from now on."""
        if not self.in_flight:
            self.in_flight_since = now
        self.in_flight += 1
        if self.in_flight >= in_flight_max:
            self.full_since = now
        self.paced_until = now

    def landed(self, batches: list[Batch], now: float, in_flight_max: int) -> None:
        """A request with these batches was answered, or never will be."""
        if self.in_flight >= in_flight_max:
            self.full_s += max(0.0, now - max(self.full_since, self._waits_since(batches, now)))
        self.in_flight -= 1
        self.in_flight_s += now - self.in_flight_since
        self.in_flight_since = now

    def _waits_since(self, batches: list[Batch], now: float) -> float:
        """When the batch was begun that leaves next, in monotonic seconds; `now` if there is none.

        It is looked for in the partitions of the request first: those that have no place in flight are in no list.
        """
        for batch in batches:
            head = batch.partition.first()
            if head is not None:
                return head.created
        for partition in self.ready or self.unfinished:
            head = partition.first()
            if head is not None:
                return head.created
        return now

    def answered(self, after_s: float, in_flight_max: int) -> None:
        """A request was answered so many seconds after it was sent."""
        self.round_trip_s += (after_s - self.round_trip_s) / 8 if self.round_trip_s else after_s
        pace_s = self.round_trip_s / in_flight_max
        self.pace_s = pace_s if pace_s >= _PACE_MIN_S else 0.0

    def is_stuck(self, now: float) -> bool:
        """Whether the broker has answered nothing, or taken nothing of what was ready, for some round trips."""
        since = now - max(_PATIENCE_S_MIN, _PATIENCE_ROUND_TRIPS * self.round_trip_s)
        if self.in_flight > 0 and self.in_flight_since < since:
            return True
        return self.stalled_since is not None and self.stalled_since < since

    def next_due(self) -> float:
        """When the first open batch has lingered long enough, in monotonic seconds; infinite when no batch lingers."""
        while self.lingering:
            due, _, batch = self.lingering[0]
            if batch.state == OPEN and batch.partition.queue is self:
                return due
            heappop(self.lingering)
        return _NEVER

    def has_work(self) -> bool:
        """Whether any partition here waits to be drained."""
        return bool(self.ready or self.unfinished)


class Partition:
    """Batches of one partition in the order of their records: sent before, queued, and the open one last."""

    __slots__ = (
        "acknowledged_epoch",
        "acknowledged_offset",
        "acknowledged_producer_id",
        "acknowledged_sequence",
        "acknowledged_serial",
        "epoch",
        "gap_from",
        "has_unexplained_gap",
        "in_flight",
        "in_flight_max",
        "index",
        "is_established",
        "leader_epoch",
        "listed",
        "moved_at",
        "next_sequence",
        "open",
        "producer_id",
        "queue",
        "queued",
        "retry_at",
        "retrying",
        "room",
        "round",
        "stuck_since",
        "suspended",
        "topic",
        "transaction",
        "unacknowledged",
        "uncounted",
        "uncounted_bytes",
        "unknown",
        "unknown_serial",
    )

    def __init__(self, topic: Topic, index: int, in_flight_max: int) -> None:
        self.topic = topic
        self.index = index
        self.in_flight_max = in_flight_max
        self.queue: BrokerQueue | None = None
        """The queue of its leader, None while there is no leader."""
        self.leader_epoch = -1
        self.open: Batch | None = None
        self.room = 0
        """The bytes to which its next batch may grow, by the last ones."""
        self.queued: deque[Batch] = deque()
        self.in_flight = 0
        """Batches on the wire."""
        self.retrying = 0
        """Batches that were sent before and have no outcome yet.

        While there are any, one batch at a time is sent, so that no later record overtakes them.
        """
        self.retry_at = 0.0
        """The end of the backoff in monotonic seconds, 0.0 for none."""
        self.listed = False
        """It is in `queue.ready`."""
        self.round = 0
        """The number of the drain that last took a batch from here."""
        self.moved_at = -math.inf
        """When a batch was acknowledged last, in monotonic seconds."""
        self.stuck_since: float | None = None
        """When the oldest of its records was accepted, if it counts as stuck; kept by `StuckRecords`."""
        self.uncounted = 0
        """Records that the present run of a bulk call has put into the open batch, see `bulk_values`."""
        self.uncounted_bytes = 0
        """Their bytes."""
        self.producer_id = -1
        """This and what follows is kept by `Sequences`, and unused where batches have no sequence numbers."""
        self.epoch = -1
        self.next_sequence = 0
        """The first number of the next batch, for `producer_id` and `epoch`."""
        self.unacknowledged: deque[Batch] = deque()
        """The batches with numbers and without outcome, in order."""
        self.is_established = True
        """A batch of this epoch was acknowledged."""
        self.has_unexplained_gap = False
        """A broker reported a gap where none is known."""
        self.unknown_serial = -1
        """The serial of the last batch whose outcome is unknown, -1 for none."""
        self.gap_from = -1
        """The serial of the first batch that is certainly not stored, -1 for none: no batch behind it is stored."""
        self.acknowledged_serial = -1
        """The serial of the batch that was stored last at a known offset, -1 for none; what follows describes it."""
        self.acknowledged_offset = -1
        self.acknowledged_producer_id = -1
        self.acknowledged_epoch = -1
        self.acknowledged_sequence = -1
        self.unknown: dict[Any, None] | None = None
        """Its `UnknownBatch`es that nothing has decided yet; kept by `UnknownBatches`."""
        self.suspended = False
        """It waits for a producer id, for an epoch, or to be added to `transaction`."""
        self.transaction = 0
        """The number of the last transaction that it joined."""

    def muted(self, now: float) -> bool:
        """Whether nothing may be sent now, because of the order of records or a backoff."""
        at_most = self.in_flight_max
        if self.retrying or not self.is_established or self.unknown_serial >= 0 or self.gap_from >= 0:
            at_most = 1
        return self.in_flight >= at_most or self.retry_at > now or self.suspended

    def is_stuck(self, now: float) -> bool:
        """Whether nothing that it holds can be delivered now, for another reason than that others are before it."""
        queue = self.queue
        return queue is None or self.retrying > 0 or self.retry_at > now or self.suspended or queue.is_stuck(now)

    def held_bytes(self) -> int:
        """The bytes of its records that are not on the wire."""
        waiting = [*self.queued, self.open] if self.open is not None else self.queued
        return sum(batch.record_bytes for batch in waiting)

    def moves(self, since: float, now: float) -> bool:
        """Whether a batch was acknowledged after `since`, and nothing has stopped it after that."""
        queue = self.queue
        if self.moved_at < since or queue is None or self.moved_at <= queue.lost_at:
            return False
        return self.stuck_since is None and not self.is_stuck(now)

    def label(self) -> str:
        """Its name in messages."""
        return f"{self.topic.name}-{self.index}"

    def first(self) -> Batch | None:
        """The batch that leaves next."""
        return self.queued[0] if self.queued else self.open

    def enlist(self, now: float, linger_s: float) -> None:
        """Enter the broker's lists as far as there is something to send and sending is allowed."""
        queue, open_batch, head = self.queue, self.open, self.first()
        if queue is None or head is None or self.muted(now):
            return
        has_grown = head is open_batch and head.units > 1
        if head is not open_batch or (has_grown and now >= queue.paced_until):
            # What a thread compresses holds back all behind it.
            if not self.listed and not head.compressing:
                self.listed = True
                queue.unfinished.pop(self, None)
                queue.ready.append(self)
                queue.drain_soon()
        elif has_grown or self not in queue.unfinished:
            queue.unfinished[self] = None
            due = queue.paced_until if has_grown else head.created + linger_s
            heappush(queue.lingering, (due, head.serial, head))
            queue.drain_soon()

    def delist(self) -> None:
        """Leave the broker's lists."""
        if self.queue is not None:
            self.queue.unfinished.pop(self, None)
            if self.listed:
                self.queue.ready.remove(self)
        self.listed = False

    def enqueue(self, batch: Batch) -> None:
        """Put a finished batch, or one that comes back for a retry, among the queued ones in record order."""
        at = len(self.queued)
        while at and self.queued[at - 1].serial > batch.serial:
            at -= 1
        self.queued.insert(at, batch)
        batch.state = QUEUED

    def close_batch(self) -> None:
        """The open batch takes no more records and may leave."""
        batch = self.open
        if batch is not None:
            self.queued.append(batch)  # The open batch is the youngest.
            batch.state = QUEUED
            self.open = None
            if self.queue is not None:
                self.queue.unfinished.pop(self, None)

    def dequeue(self, batch: Batch) -> None:
        """Take out a batch that will not be sent from here (again)."""
        if self.open is batch:
            self.open = None
            if self.queue is not None:
                self.queue.unfinished.pop(self, None)
        else:
            self.queued.remove(batch)
        if not self.queued and self.listed:
            self.delist()
        self.topic.count_queued(self.index, -batch.units)

    def end_turn(self, size: int, availability_timeout_s: float, now: float) -> None:
        """Count `size` bytes towards the turn of the topic's sticky choice, if it is this partition's."""
        topic = self.topic
        if topic.sticky.partition == self.index:
            excluded = topic.stalled(now, availability_timeout_s) if availability_timeout_s > 0.0 else None
            topic.sticky.batch_closed(size, topic.queue_lengths, excluded)


class Topic:
    """The partitions of one topic, the sticky choice for records without key, and what waits for its metadata."""

    __slots__ = (
        "count",
        "error",
        "name",
        "name_bytes",
        "parked",
        "parked_bytes",
        "partitions",
        "queue_lengths",
        "size_limit",
        "sticky",
        "stuck_count",
        "stuck_since",
        "topic_id",
        "touched_at",
        "withdraw",
    )

    def __init__(
        self,
        name: str,
        sticky: StickyChoice,
        withdraw: Callable[[Any, Batch | ParkedRecord], object] | None = None,
    ) -> None:
        self.name = name
        self.name_bytes = name.encode()
        self.sticky = sticky
        self.withdraw = withdraw
        """Takes the record of a cancelled future back: here, as the owner of a future's record knows its topic."""
        self.count = 0
        """How many partitions the topic has now."""
        self.partitions: list[Partition] = []
        """Those, and perhaps more, from before the topic was created again."""
        self.parked: deque[ParkedRecord] | None = deque()
        """None once the topic is usable and all records parked for it have moved on."""
        self.parked_bytes = 0
        """What the parked records hold of the memory."""
        self.stuck_since: float | None = None
        """When the oldest parked record was accepted, if they count as stuck; kept by `StuckRecords`."""
        self.stuck_count = 0
        """How many of the topic and its partitions count as stuck: above 0, each record is looked at."""
        self.queue_lengths: dict[int, int] = {}
        """Batches that are not on the wire, for partitions that have any, a grown one by its units.

        The adaptive choice reads it.
        """
        self.size_limit: SizeLimit | None = None
        """None while no broker has rejected a batch as too large."""
        self.topic_id: bytes | None = None
        self.touched_at = -math.inf
        """When the topic was last marked as used in the metadata, in monotonic seconds."""
        self.error: AioprodError | None = None
        """Why the topic will never be usable."""

    def is_stuck(self, now: float) -> bool:
        """Whether its partitions are not known."""
        return self.parked is not None

    def held_bytes(self) -> int:
        """The bytes of its parked records."""
        return self.parked_bytes

    @property
    def topic(self) -> Topic:
        """Itself: what counts as stuck is a partition, or a topic whose partitions are not known."""
        return self

    def label(self) -> str:
        """Its name in messages."""
        return f"topic {self.name!r}"

    def count_queued(self, index: int, change: int) -> None:
        """Keep `queue_lengths`."""
        length = self.queue_lengths.get(index, 0) + change
        if length:
            self.queue_lengths[index] = length
        else:
            self.queue_lengths.pop(index, None)

    def stalled(self, now: float, timeout_s: float) -> Callable[[int], bool]:
        """A function that says of a partition whether its broker has stalled for longer than `timeout_s`."""

        def is_stalled(index: int) -> bool:
            queue = self.partitions[index].queue
            return queue is not None and queue.stalled_since is not None and now - queue.stalled_since > timeout_s

        return is_stalled
