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
    """`count` records in a row of one batch that belong to one bulk call: one waiter entry for all of them.

    `bulk` is the call, whose `complete` gets their outcome. `first` is the ordinal of the first of them among the
    call's records of the same partition.
    """

    __slots__ = ("bulk", "count", "first")

    def __init__(self, bulk: Any, first: int, count: int) -> None:
        self.bulk = bulk
        self.first = first
        self.count = count


class FlushBarrier:
    """Counts what one `flush()` waits for; `done` is called when nothing is left."""

    __slots__ = ("done", "pending")

    def __init__(self, done: Callable[[], None]) -> None:
        self.pending = 0
        self.done = done

    def hold(self) -> None:
        """One more batch, or parked record, that the flush waits for."""
        self.pending += 1

    def release(self) -> None:
        """One of them has its outcome."""
        self.pending -= 1
        if self.pending == 0:
            self.done()


class Batch:
    """Encoded records, their waiters, and what happened to them so far.

    `waiters` has one entry per completion in record order: a `Run` stands for several records, everything else for
    one; `producer/completions.py` knows what the entries are. Times are monotonic seconds.
    `record_bytes` is what the batch holds of the memory budget, withdrawn records not included. `maybe_stored`: an
    answer was lost or said nothing about the log, so the records may be there. `unanswered`: they were given to a
    socket, and no answer has been read. `on_wire`: a connection may still read the bytes. `compressing`: a
    thread reads the bytes or will, so that the batch can't be sent yet. `released`: all waiters were completed.
    `was_redirected`: it was retried at once, as its partition had moved.
    `base_sequence` is that of the first record, for `producer_id` and `epoch`, -1 for a batch that has none (see
    `sequences`). `stamped`: the header of the sealed bytes has these three.
    """

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
        "maybe_stored",
        "on_wire",
        "partition",
        "places",
        "producer_id",
        "record_bytes",
        "records",
        "released",
        "retrying",
        "sealed",
        "serial",
        "stamped",
        "state",
        "topic_id",
        "unanswered",
        "waiters",
        "was_redirected",
        "withdrawn",
    )

    def __init__(self, partition: Partition, builder: RecordBatchBuilder, serial: int, now: float, deadline: float):
        self.partition = partition
        self.builder = builder
        self.serial = serial
        self.created = now
        self.deadline = deadline
        self.topic_id = partition.topic.topic_id
        self.state = OPEN
        self.waiters: list[Any] = []
        self.withdrawn: set[int] | None = None
        self.places: dict[int, tuple[int, int]] | None = None
        self.records = 0
        self.record_bytes = 0
        self.attempts = 0
        self.broker: int | None = None
        self.code: ErrorCode | int | None = None
        self.cause: BaseException | None = None
        self.maybe_stored = False
        self.sealed = False
        self.on_wire = False
        self.compressing = False
        self.unanswered = False
        self.retrying = False
        self.released = False
        self.was_redirected = False
        self.producer_id = -1
        self.epoch = -1
        self.base_sequence = -1
        self.stamped = False
        self.barriers: list[FlushBarrier] | None = None

    def withdraw(self, waiter: object) -> int:
        """Take one record out before it is sent; the bytes it gives back, 0 when it is too late."""
        if self.state >= IN_FLIGHT or self.attempts:
            return 0
        index, size = self._place_of(waiter)
        if index < 0 or (self.withdrawn is not None and index in self.withdrawn):
            return 0
        if self.withdrawn is None:
            self.withdrawn = set()
        self.withdrawn.add(index)
        self.records -= 1
        self.record_bytes -= size
        return size

    def _place_of(self, waiter: object) -> tuple[int, int]:
        """Index and encoded size of the record that `waiter` waits for, (-1, 0) when it is not here.

        Looked up in a table that the first call builds: often many records are withdrawn at once.
        """
        if self.places is None or (id(waiter) not in self.places and len(self.places) < len(self.waiters)):
            self.places = {}
            cursor = RecordCursor(self.builder)
            for entry in self.waiters:
                cursor.skip(entry.count if type(entry) is Run else 1)
                self.places[id(entry)] = (cursor.index, cursor.end - cursor.start)
        return self.places.get(id(waiter), (-1, 0))

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

    def hold(self, barrier: FlushBarrier) -> None:
        """Make a flush wait for this batch, once."""
        if self.barriers is None:
            self.barriers = []
        if barrier not in self.barriers:
            self.barriers.append(barrier)
            barrier.hold()


class ParkedRecord:
    """An accepted record whose topic is not known yet; `size` is what it holds of the memory budget.

    It was accepted at `accepted` and waits until `deadline`, in monotonic seconds; `moved_to` is the batch that it
    went to once the topic was known. One that was `withdrawn` is dropped when its turn comes.
    """

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
        self.accepted = accepted
        self.deadline = deadline
        self.moved_to: Batch | None = None
        self.withdrawn = False
        self.barriers: list[FlushBarrier] | None = None

    def hold(self, barrier: FlushBarrier) -> None:
        """Make a flush wait for this record."""
        if self.barriers is None:
            self.barriers = []
        self.barriers.append(barrier)
        barrier.hold()
