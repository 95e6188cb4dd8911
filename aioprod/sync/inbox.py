"""Calls of any thread on their way into the event loop, in their order, with one wake-up for each burst."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock, get_ident
from typing import Any, Final

from aioprod.cluster.names import topic_name_error
from aioprod.errors import BufferFullError, InvalidTopicError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.buffer_memory import MemoryBudget, Reservation, record_too_large, stuck_full
from aioprod.producer.clock import Clock
from aioprod.producer.preparation import Prepared, as_bytes, partition_index
from aioprod.records.bounds import loose_bound, record_size_bound
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.records.layout import HEADER
from aioprod.sync.call import Call
from aioprod.sync.entry import Entry, new_entry
from aioprod.sync.record_future import RecordFuture
from aioprod.types import Buffered, Timestamp

__all__ = ["Inbox"]

_NAMES_MAX: Final = 10_000
"""Names of topics that are remembered as legal ones."""


class Inbox:
    """The calls of all threads until the loop takes them, and the bytes of their records.

    `wake` is called, in the thread of the call, when the first call comes after `sleep`. `failed` is called in the loop
    for a record that the accumulator does not take. The limit of `budget` is for the records here and those that it
    counts together.

    The lock is held for some instructions. Its own thread may take it again, as a handler of a signal may send records.
    """

    def __init__(
        self,
        *,
        limit: int,
        request_size_max: int,
        timestamp_ms: Callable[[str, Timestamp], int],
        wake: Callable[[], None],
        failed: Callable[[Entry, BaseException], None],
    ) -> None:
        lock = RLock()
        self._acquire = lock.acquire
        self._release = lock.release
        self._timestamp_ms = timestamp_ms
        self._wake = wake
        self._failed = failed
        self._clock = Clock()
        self._limit = limit
        self._request_size_max = request_size_max
        self._bound_max = min(request_size_max - HEADER, limit)
        self._budget = MemoryBudget(limit)
        self._names: set[str] = set()
        self._entries: list[Entry | Call[Any]] = []
        self._outgoing: list[Entry | Call[Any]] = []
        self._bytes = 0
        self._records = 0
        self._last_full: tuple[int, Entry] | None = None
        """The thread whose record was the last one without room as something of its topic is stuck, and that record."""
        self._is_open = True
        self._is_awake = False
        self._newest_s = 0.0

    # --- for any thread

    def put(
        self, topic: str, value: Any, key: Any, partition: int | None, headers: Any, timestamp: Any, waiter: Any
    ) -> bool:
        """Check a record and take it; False when this inbox is closed.

        Raises InvalidRecordError and its subclasses, UsageError for a missing value, and BufferFullError.
        """
        return self.enter(self.entry(topic, value, key, partition, headers, timestamp, waiter))

    def entry(
        self, topic: str, value: Any, key: Any, partition: int | None, headers: Any, timestamp: Any, waiter: Any
    ) -> Entry:
        """A record for `enter`; raises as `put` does."""
        if key is not None and type(key) is not bytes:
            key = as_bytes("key", topic, key)
        if value is not None and type(value) is not bytes:
            value = as_bytes("value", topic, value)
        encoded = NO_HEADERS if headers is None else encode_headers(headers)
        index = -1 if partition is None else partition_index(topic, partition)
        at_ms = -1 if timestamp is None else self._timestamp_ms(topic, timestamp)
        return self._checked(topic, key, value, encoded, index, at_ms, waiter)

    def prepared_entry(self, prepared: Prepared, waiter: Any) -> Entry:
        """The same for a record that went through interceptors and serializers."""
        topic, key, value, headers, partition, timestamp = prepared
        return self._checked(topic, key, value, headers, partition, -1 if timestamp is None else timestamp, waiter)

    def _checked(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        partition: int,
        timestamp: int,
        waiter: Any,
    ) -> Entry:
        if topic not in self._names:
            self._check_name(topic)
        bound = loose_bound(key, value, headers)
        if bound > self._bound_max:
            bound = record_size_bound(key, value, headers)
            if bound > self._bound_max:
                raise record_too_large(topic, bound, self._request_size_max, self._limit)
        now_ns = self._clock.now_ns()
        if timestamp < 0:
            timestamp = self._clock.timestamp_ms(now_ns)
        return new_entry(topic, key, value, headers, partition, timestamp, waiter, now_ns / 1e9, bound)

    def _check_name(self, topic: str) -> None:
        reason = topic_name_error(topic)
        if reason is not None:
            raise InvalidTopicError(reason)
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._names.add(topic)

    def enter(self, entry: Entry) -> bool:
        """Take a record; False when this inbox is closed. Raises BufferFullError."""
        bound = entry.bound
        self._acquire()
        try:
            if not self._is_open:
                return False
            # While callers wait for memory, `open_to` lets no other record overtake.
            if self._bytes + bound + self._budget.used > self._budget.open_to:
                raise self._full(entry)
            stuck = self._budget.stuck
            if stuck.topics and entry.topic in stuck.topics and not stuck.fits(bound):
                self._last_full = get_ident(), entry
                raise stuck_full(entry.topic, bound, self._budget, entry.now)
            # In this order, so that an interrupt between two steps leaves no record for which the loop is not woken.
            if not self._is_awake:
                self._wake()
                self._is_awake = True
            self._bytes += bound
            self._records += 1
            self._entries.append(entry)
        finally:
            self._release()
        return True

    def _full(self, entry: Entry) -> BufferFullError:
        held = self.buffered()
        return BufferFullError(
            f"buffer.memory={self._limit} is used up: {held.records} records with {held.bytes} bytes wait for their "
            f"delivery, and the next one, for topic {entry.topic!r}, needs up to {entry.bound} bytes.",
            hint="Call producer.drain(), or submit(), which wait for room, or raise buffer.memory.",
        )

    def last_full(self) -> Entry | None:
        """The last record without room as something of its topic is stuck, if it was one of this thread's."""
        last, self._last_full = self._last_full, None
        return None if last is None or last[0] != get_ident() else last[1]

    def call(self, call: Call[Any]) -> bool:
        """Take a call that the loop is to begin once all that came before has left; False when this inbox is closed."""
        self._acquire()
        try:
            if not self._is_open:
                return False
            if not self._is_awake:
                self._wake()
                self._is_awake = True
            self._entries.append(call)
        finally:
            self._release()
        return True

    def close(self) -> None:
        """Take nothing more."""
        self._acquire()
        try:
            self._is_open = False
        finally:
            self._release()

    @property
    def is_open(self) -> bool:
        """Whether calls are taken."""
        return self._is_open

    def buffered(self) -> Buffered:
        """The records without outcome, here and in the producer, and the bytes that are counted for them."""
        return Buffered(self._records + self._budget.records, self._bytes + self._budget.used)

    # --- for the loop

    def share(self, budget: MemoryBudget) -> None:
        """The producer has started: what it holds counts, too."""
        self._budget = budget

    def sleep(self) -> bool:
        """Whether there is nothing left; the next call wakes the loop then."""
        self._acquire()
        try:
            if self._entries or self._outgoing:
                return False
            self._bytes = self._records = 0
            self._is_awake = False
        finally:
            self._release()
        return True

    def move(self, accumulator: Accumulator, most: int) -> Entry | Call[Any] | None:
        """Append the next records, up to `most`; returns what has to be done before the others, None if nothing has to
        be.

        It is a call, a record that found no room, or one for which memory was reserved.
        """
        moved = records = 0
        stop: Entry | Call[Any] | None = None
        while most > 0:
            most -= 1
            if not self._outgoing and not self._take():
                break
            stop = self._outgoing.pop()
            if type(stop) is not Entry:
                break
            entry = stop
            if entry.reservation is not None:
                break
            moved += entry.bound
            records += 1
            stop = None
            waiter = entry.waiter
            if type(waiter) is RecordFuture and not waiter.begin():
                continue
            # Threads read the clock before they get the lock. Deadlines of batches are to grow, or they are sorted.
            if entry.now > self._newest_s:
                self._newest_s = entry.now
            try:
                entry.append_to(accumulator, self._newest_s, 0)
            except BufferFullError:
                if not accumulator.budget.stuck.size_without_room:
                    stop = entry
                    break
                # The share of what is stuck is full, but its thread has accepted the record already.
                self._append_accepted(accumulator, entry)
            except BaseException as error:
                self._failed(entry, error)
        self._acquire()
        self._bytes -= moved
        self._records -= records
        self._release()
        return stop

    def _append_accepted(self, accumulator: Accumulator, entry: Entry) -> None:
        try:
            entry.append_to(accumulator, self._newest_s, -1)
        except BaseException as error:
            self._failed(entry, error)

    def _take(self) -> bool:
        """Have all that came in leave, the oldest at the end of the list; False when there is nothing."""
        self._acquire()
        self._outgoing, self._entries = self._entries, self._outgoing
        self._release()
        self._outgoing.reverse()
        return len(self._outgoing) > 0

    def enter_reserved(self, entry: Entry, reservation: Reservation) -> None:
        """Take a record whose memory is reserved, behind all others, also when this inbox is closed already."""
        self._acquire()
        try:
            entry.reserve(reservation)
            self._entries.append(entry)
        finally:
            self._release()

    def rest(self) -> list[Entry | Call[Any]]:
        """Remove what is left, and return it in order."""
        self._acquire()
        try:
            left = [*reversed(self._outgoing), *self._entries]
            self._outgoing = []
            self._entries = []
            self._bytes = self._records = 0
        finally:
            self._release()
        return left

    def waiters(self) -> list[Any]:
        """The waiters of the records. It takes no lock: after a fork a thread that does not exist here may hold it."""
        return [entry.waiter for entry in [*self._outgoing, *self._entries] if isinstance(entry, Entry)]
