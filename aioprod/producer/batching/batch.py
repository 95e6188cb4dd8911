"""A batch of records of one partition on its way to the broker, and a record that waits for its topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aioprod.producer.batching.states import IN_FLIGHT, OPEN
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.cursor import RecordCursor

if TYPE_CHECKING:
    from aioprod._error_codes import ErrorCode
    from aioprod.producer.batching.partition import Partition, Topic

__all__ = ["Batch", "FlushBarrier", "ParkedRecord", "Run"]


class Run:
    """Records in a row of one batch that belong to one bulk call: one waiter entry for all of them."""

    __slots__ = ("bulk", "count", "first")

    def __init__(self, bulk: Any, first: int, count: int) -> None:
        self.bulk = bulk
        """The call, whose `complete` gets their outcome."""
        self.first = first
        """The ordinal of the first of them among the call's records of the same partition."""
        self.count = count


class FlushBarrier:
    """Counts what one `flush()` waits for."""

    __slots__ = ("done", "pending")

    def __init__(self, done: Callable[[], None]) -> None:
        self.pending = 0
        """How many batches and parked records have no outcome yet."""
        self.done = done
        """Called when nothing is left."""

    def add(self) -> None:
        """One more batch, or parked record, that the flush waits for."""
        self.pending += 1

    def remove(self) -> None:
        """One of them has its outcome."""
        self.pending -= 1
        if self.pending == 0:
            self.done()


class _Places:
    """Where the records of one batch lie: index and encoded size by waiter.

    Each record is read once, as often many are withdrawn at once, and while the batch still grows.
    """

    __slots__ = ("_cursor", "_entries", "_table")

    def __init__(self, batch: Batch) -> None:
        self._cursor = RecordCursor(batch.builder)
        self._entries = 0
        """How many of the batch's waiters were read."""
        self._table: dict[int, tuple[int, int]] = {}

    def find(self, batch: Batch, waiter: object) -> tuple[int, int]:
        """Where the record that `waiter` waits for is, (-1, 0) when it is not in the batch."""
        if id(waiter) not in self._table:
            self._cursor.follow(batch.builder)
            for entry in batch.waiters[self._entries :]:
                self._cursor.skip(entry.count if type(entry) is Run else 1)
                self._table[id(entry)] = (self._cursor.index, self._cursor.end - self._cursor.start)
            self._entries = len(batch.waiters)
        return self._table.get(id(waiter), (-1, 0))


class Batch:
    """Encoded records, their waiters, and what happened to them so far. Times are monotonic seconds."""

    __slots__ = (
        "attempts",
        "barriers",
        "base_sequence",
        "broker",
        "builder",
        "cause",
        "code",
        "compressing",
        "created",
        "deadline",
        "epoch",
        "former",
        "full_position",
        "maybe_stored",
        "on_wire",
        "open_until",
        "partition",
        "places",
        "producer_id",
        "record_bytes",
        "records",
        "released",
        "retrying",
        "room",
        "sealed",
        "serial",
        "stamped",
        "state",
        "topic_id",
        "unanswered",
        "units",
        "unknown",
        "waiters",
        "was_redirected",
        "withdrawn",
    )

    def __init__(self, partition: Partition, builder: RecordBatchBuilder, serial: int, now: float, deadline: float):
        self.partition = partition
        self.builder = builder
        self.serial = serial
        """Grows with each record that the producer accepts, so that it is the order of batches."""
        self.created = now
        self.deadline = deadline
        self.open_until = deadline
        """While it is open, it takes no record that comes later: all records share the deadline."""
        self.full_position = 0
        """While it is open: where its builder is full, and the batch leaves or grows by another unit."""
        self.room = 0
        """While it is open: the bytes of its buffer, if that began larger than for one unit; else 0."""
        self.units = 1
        """How many batches of `batch.size` it counts for in loads and sticky turns: more than one, and it has grown."""
        self.topic_id = partition.topic.topic_id
        self.state = OPEN
        self.waiters: list[Any] = []
        """One entry per completion in record order: a `Run` stands for several records, everything else for one.

        `producer/completions.py` knows what the entries are.
        """
        self.unknown: Any = None
        """The `UnknownBatch` that it became when its outcome could not be known."""
        self.withdrawn: set[int] | None = None
        """The indexes of records that were taken back, and are still encoded."""
        self.places: _Places | None = None
        """Where its records are, once one was withdrawn."""
        self.records = 0
        """Records that will be sent: those appended less those withdrawn."""
        self.record_bytes = 0
        """What these hold of the memory budget."""
        self.attempts = 0
        self.broker: int | None = None
        """The id of the broker to which it was sent last."""
        self.code: ErrorCode | int | None = None
        """What a broker answered last."""
        self.cause: BaseException | None = None
        self.maybe_stored = False
        """An answer was lost or said nothing about the log, so that the records may be there."""
        self.sealed = False
        self.on_wire = False
        """A connection may still read the bytes."""
        self.compressing = False
        """A thread reads the bytes or will, so that the batch can't be sent yet."""
        self.unanswered = False
        """The records were given to a socket, and no answer has been read."""
        self.retrying = False
        self.released = False
        """All waiters were completed."""
        self.was_redirected = False
        """It was retried at once, as its partition had moved."""
        self.producer_id = -1
        self.epoch = -1
        self.base_sequence = -1
        """The number of the first record, for `producer_id` and `epoch`; -1 while the batch has none (`sequences`)."""
        self.former: list[tuple[int, int, int]] | None = None
        """The same three for each time that it was sent in an epoch that has ended, and may be stored by that."""
        self.stamped = False
        """The sealed bytes have this producer id, epoch and number."""
        self.barriers: list[FlushBarrier] | None = None
        """The flushes that wait for it."""

    def withdraw(self, waiter: object) -> int:
        """Take one record out before it is sent; the bytes it gives back, 0 when it is too late."""
        if self.state >= IN_FLIGHT or self.attempts:
            return 0
        if self.places is None:
            self.places = _Places(self)
        index, size = self.places.find(self, waiter)
        if index < 0 or (self.withdrawn is not None and index in self.withdrawn):
            return 0
        if self.withdrawn is None:
            self.withdrawn = set()
        self.withdrawn.add(index)
        self.records -= 1
        self.record_bytes -= size
        return size

    def compact(self, buffer: bytearray) -> bytearray:
        """Encode what is left after withdrawals into `buffer`; returns the old buffer."""
        assert self.withdrawn
        withdrawn, self.withdrawn = self.withdrawn, None
        old = self.builder.buffer
        self.builder = self.builder.without(withdrawn, buffer)
        waiters: list[Any] = []
        index = 0
        for entry in self.waiters:
            if index not in withdrawn:
                waiters.append(entry)
            index += entry.count if type(entry) is Run else 1
        self.waiters = waiters
        self.places = None
        return old

    def add_barrier(self, barrier: FlushBarrier) -> None:
        """Make a flush wait for this batch, once."""
        if self.barriers is None:
            self.barriers = []
        if barrier not in self.barriers:
            self.barriers.append(barrier)
            barrier.add()


class ParkedRecord:
    """An accepted record whose topic is not known yet. Times are monotonic seconds."""

    __slots__ = (
        "accepted",
        "barriers",
        "deadline",
        "headers",
        "key",
        "moved_to",
        "partition",
        "size",
        "timestamp",
        "topic",
        "value",
        "waiter",
        "withdrawn",
    )

    def __init__(
        self,
        topic: Topic,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        partition: int,
        timestamp: int,
        waiter: Any,
        size: int,
        accepted: float,
        deadline: float,
    ) -> None:
        self.topic = topic
        self.key = key
        self.value = value
        self.headers = headers
        self.partition = partition
        self.timestamp = timestamp
        self.waiter = waiter
        self.size = size
        """What it holds of the memory budget."""
        self.accepted = accepted
        self.deadline = deadline
        self.moved_to: Batch | None = None
        """The batch that it went to once the topic was known."""
        self.withdrawn = False
        """It is dropped when its turn comes."""
        self.barriers: list[FlushBarrier] | None = None
        """The flushes that wait for it."""

    def add_barrier(self, barrier: FlushBarrier) -> None:
        """Make a flush wait for this record."""
        if self.barriers is None:
            self.barriers = []
        self.barriers.append(barrier)
        barrier.add()
