"""One record between the thread that sends it and the loop."""

from __future__ import annotations

from typing import Any

from aioprod.producer import native
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.buffer_memory import Reservation
from aioprod.producer.failure import rebuilt
from aioprod.records.cursor import EncodedRecord
from aioprod.types import ProducerRecord

__all__ = ["Entry", "new_entry"]


class Entry:
    """A record that is checked; made by `new_entry`.

    Compiled, it is not tracked by the garbage collector, which would visit all that wait again and again, for as much
    as the call itself costs. It is in no cycle that could be garbage: an inbox lives until its entries have left.
    """

    __slots__ = ("bound", "headers", "key", "now", "partition", "reservation", "timestamp", "topic", "value", "waiter")

    topic: str
    key: bytes | None
    value: bytes | None
    headers: bytes
    """Encoded."""
    partition: int
    """-1: to be chosen."""
    timestamp: int
    """In ms."""
    waiter: Any
    now: float
    """The time of the call, in monotonic seconds."""
    bound: int
    """The most bytes that the record takes."""
    reservation: Reservation | None
    """The memory that is reserved for the record, if any."""

    def reserve(self, reservation: Reservation) -> None:
        """Memory is reserved for it."""
        self.reservation = reservation

    def append_to(self, accumulator: Accumulator, now: float, granted: int) -> None:
        """Append the record as one of the time `now`, in monotonic seconds; arguments and errors of `append` there."""
        accumulator.append(
            self.topic,
            self.key,
            self.value,
            self.headers,
            self.partition,
            self.timestamp,
            self.waiter,
            now,
            granted,
        )

    def record(self) -> ProducerRecord:
        """The record as its caller would give it."""
        return rebuilt(self.topic, self.partition, EncodedRecord(self.timestamp, self.key, self.value, self.headers))


def new_entry(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: bytes,
    partition: int,
    timestamp: int,
    waiter: Any,
    now: float,
    bound: int,
) -> Entry:
    """Make an entry. Compiled, this calls no constructor, whose arguments would have to be objects."""
    entry = Entry.__new__(Entry)
    entry.topic = topic
    entry.key = key
    entry.value = value
    entry.headers = headers
    entry.partition = partition
    entry.timestamp = timestamp
    entry.waiter = waiter
    entry.now = now
    entry.bound = bound
    entry.reservation = None
    native.untrack(entry)
    return entry
