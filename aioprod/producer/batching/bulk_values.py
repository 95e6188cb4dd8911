# cython: boundscheck=False, wraparound=False
"""Records of a bulk call on their way into the accumulator: a slice of them at a time, as far as there is room."""

from __future__ import annotations

from array import array
from typing import Any, Final, Protocol

from aioprod.errors import AioprodError, BufferFullError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, Run
from aioprod.producer.batching.lines import Lines
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.records.bounds import LOOSE_OVERHEAD, record_size_bound
from aioprod.types import TopicPartition

__all__ = ["BulkCall", "BulkValues", "count_runs", "join_bulk"]

BYTES_PER_TURN: Final = 2**20
"""What is copied at most before the loop gets a turn: far less than a millisecond's worth, but fresh memory is slow."""


class BulkCall(Protocol):
    """What the appender of records needs of their bulk call."""

    def begin_run(self, place: TopicPartition) -> Run:
        """A run of no records yet, for the next records of the call that go to `place` in a row."""

    def as_bytes(self, what: str, given: object) -> bytes:
        """A key or value that is not of type bytes as bytes; raises SerializationError."""

    def invalid(self, index: int, error: AioprodError) -> None:
        """The record at `index` of the call was not accepted."""


def join_bulk(batch: Batch, bulk: BulkCall, count: int = 1) -> None:
    """The records that were just put into `batch` belong to a bulk call; those in a row share one waiter entry."""
    waiters = batch.waiters
    last = waiters[len(waiters) - 1] if waiters else None
    if type(last) is Run:
        run = last
        if run.bulk is bulk:
            run.count += count
            return
    partition = batch.partition
    run = bulk.begin_run(TopicPartition(partition.topic.name, partition.index))
    run.count = count
    waiters.append(run)


def count_runs(accumulator: Accumulator, partitions: list[Partition], bulk: BulkCall, now: float) -> None:
    """Count the records that a run over several partitions has put into their open batches.

    Once per run and partition, as it costs more than to encode a record.
    """
    for partition in partitions:
        batch = partition.open
        assert batch is not None
        count, size = partition.uncounted, partition.uncounted_bytes
        partition.uncounted = partition.uncounted_bytes = 0
        join_bulk(batch, bulk, count)
        accumulator.count(batch, count, size, now)


class BulkValues:
    """Neighbouring records of a bulk call that have everything but key, value and timestamp in common.

    Lines have neither keys nor headers.
    """

    __slots__ = (
        "accepted",
        "at",
        "bulk",
        "first",
        "headers",
        "keys",
        "needed",
        "partition",
        "places",
        "timestamp",
        "timestamps",
        "values",
    )

    def __init__(
        self,
        bulk: BulkCall,
        values: list[Any] | Lines,
        keys: list[Any] | None,
        headers: bytes,
        timestamp: int,
        partition: int,
        first: int,
        timestamps: list[int] | None = None,
    ) -> None:
        self.bulk = bulk
        self.values = values
        self.keys = keys
        """One per value; None where no record has a key."""
        self.headers = headers
        """Encoded."""
        self.timestamp = timestamp
        """In ms."""
        self.timestamps = timestamps
        """One per value, in place of `timestamp`; None where that is the one of all."""
        self.partition = partition
        """-1 where the partitioner chooses one."""
        self.first = first
        """The index in the call of the first value."""
        self.places = array("i", [-1]) * len(values)
        """The partition of each record, -1 for those that are not accepted."""
        self.at = 0
        """How many records have been dealt with."""
        self.accepted = 0
        """How many of them were accepted."""
        self.needed = 0
        """The room in bytes that the next record did not find."""

    @property
    def left(self) -> int:
        """How many records have not been dealt with."""
        return len(self.values) - self.at

    def append(self, accumulator: Accumulator, topic: Topic, now: float) -> bool:
        """Append what is left, up to `BYTES_PER_TURN`; False when there is more.

        Then `needed` says what room the next record waits for, 0 for none. A record that can't be accepted for a reason
        of its own goes to the call's failures. `now` is in monotonic seconds; the topic must be known.
        """
        self.needed = 0
        accumulator.budget.stuck.forget_full()
        while self.at < len(self.values):
            try:
                return self._append(accumulator, topic, now)
            except BufferFullError:
                self.needed = accumulator.budget.stuck.size_without_room
                return False
            except AioprodError as error:
                self.bulk.invalid(self.first + self.at, error)
                self.at += 1
        return True

    def _append(self, accumulator: Accumulator, topic: Topic, now: float) -> bool:
        stop = len(self.values)
        left = BYTES_PER_TURN
        places = self.places
        key = None
        in_keyed_runs = self.partition < 0 and accumulator.fitting_is_enough and accumulator.choice.is_built_in
        in_runs = in_keyed_runs and self.keys is None and self.timestamps is None
        while self.at < stop:
            if in_keyed_runs and left > 0 and not topic.stuck_count:
                if in_runs:
                    size = self._append_run(accumulator, topic, left, now)
                else:
                    size = self._append_keyed_run(accumulator, topic, left, now)
                if size > 0:
                    left -= size
                    continue
            given = self.values[self.at]
            value = given if given is None or type(given) is bytes else self.bulk.as_bytes("value", given)
            if self.keys is not None:
                given = self.keys[self.at]
                key = given if given is None or type(given) is bytes else self.bulk.as_bytes("key", given)
            bound = record_size_bound(key, value, self.headers)
            accumulator.check_size(topic, bound)
            if left <= 0:
                return False
            if not accumulator.budget.fits(bound):
                self.needed = bound
                return False
            left -= bound
            partition = self.partition
            if topic.stuck_count:
                partition = accumulator.stuck.admit(topic, key, value, partition, bound, now)
            timestamp = self.timestamp if self.timestamps is None else self.timestamps[self.at]
            batch = accumulator.put(topic, key, value, self.headers, partition, timestamp, now, bound)
            join_bulk(batch, self.bulk)
            places[self.at] = batch.partition.index
            self.at += 1
            self.accepted += 1
        return True

    def _append_run(self, accumulator: Accumulator, topic: Topic, left: int, now: float) -> int:
        """Append plain values to the open batch of the sticky partition; the bytes they take there, up to `left`.

        0 where the next record needs more than that: another batch, room, serialization, or is invalid.
        """
        partition = topic.partitions[topic.sticky.partition]
        batch = partition.open
        if batch is None or now > batch.open_until:
            return 0
        builder = batch.builder
        start = builder.position
        size_max = min(left, accumulator.budget.open_to - accumulator.budget.used)
        values = self.values
        if isinstance(values, Lines):
            lines = values
            count = lines.append_to(builder, self.timestamp, self.at, size_max)
        else:
            count = builder.append_values(self.timestamp, values, self.at, self.headers, size_max)
        if count == 0:
            return 0
        join_bulk(batch, self.bulk, count)
        places = self.places
        stop = self.at + count
        for place in range(self.at, stop):
            places[place] = partition.index
        self.at = stop
        self.accepted += count
        size = builder.position - start
        accumulator.count(batch, count, size, now)
        return size

    def _append_keyed_run(self, accumulator: Accumulator, topic: Topic, left: int, now: float) -> int:
        """Append plain values to the open batches of the partitions of their keys; the same result.

        Those without a key go to the sticky one.
        """
        choice = accumulator.choice
        is_sticky = choice.keyed_is_sticky
        sticky = topic.sticky.partition
        partitions = topic.partitions
        keys = self.keys
        timestamps = self.timestamps
        timestamp = self.timestamp
        values = self.values
        assert isinstance(values, list)
        places = self.places
        headers = self.headers
        headers_size = len(self.headers)
        end = min(left, accumulator.budget.open_to - accumulator.budget.used) - LOOSE_OVERHEAD - headers_size
        used: list[Partition] = []
        size = 0
        at = self.at
        stop = len(values)
        while at < stop:
            given = values[at]
            if type(given) is bytes:
                value = given
                value_size = len(value)
            elif given is None:
                value = b""
                value_size = -1
            else:
                break
            given = None if keys is None else keys[at]
            if type(given) is bytes:
                key = given
                key_size = len(key)
            elif given is None:
                key = b""
                key_size = -1
            else:
                break
            if size + key_size + value_size > end:
                break
            index = sticky
            if key_size >= 0 and not is_sticky:
                index = choice.by_key(topic, key, 0, key_size)
            partition = partitions[index]
            if partition.open is None or now > partition.open.open_until:
                break
            if timestamps is not None:
                timestamp = timestamps[at]
            # No name for the batch: each takes two steps more, which count its references.
            taken = partition.open.builder.append_from(
                timestamp, key, 0, key_size, value, 0, value_size, headers, 0, headers_size
            )
            if not taken:
                break
            if not partition.uncounted:
                used.append(partition)
            partition.uncounted += 1
            partition.uncounted_bytes += taken
            places[at] = index
            size += taken
            at += 1
        self.accepted += at - self.at
        self.at = at
        count_runs(accumulator, used, self.bulk, now)
        return size
