# cython: boundscheck=False, wraparound=False
"""Rows of columns on their way into the accumulator: encoded from where they lie, without an object for each."""

from __future__ import annotations

from array import array
from typing import Final

from aioprod._build import COMPILED
from aioprod.arrow.columns import BytesColumn, NumberColumn, PairsColumn, TimestampColumn
from aioprod.errors import AioprodError, BufferFullError, SerializationError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.bulk_topics import RowsCall, RowTopics
from aioprod.producer.batching.bulk_values import BYTES_PER_TURN, count_runs, join_bulk
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.records.bounds import LOOSE_OVERHEAD, size_bound
from aioprod.records.headers import NO_HEADERS
from aioprod.wire import memory

__all__ = ["BulkColumns", "RecordColumns"]

_ROWS_PER_TURN_SLOW: Final = 500
"""Rows that may be encoded before the loop gets a turn where each runs some Python: a custom partitioner, an error,
all of this in pure Python."""

_ROW_COST: Final = 0 if COMPILED else BYTES_PER_TURN // _ROWS_PER_TURN_SLOW
_SLOW_ROW_COST: Final = BYTES_PER_TURN // _ROWS_PER_TURN_SLOW
"""What a row counts against `BYTES_PER_TURN` beside its bytes."""

_PAIR_COST: Final = 8 + _ROW_COST
"""The same for a header: rows may fail after many of them were looked at."""

_PAIR_SIZE_MIN: Final = 2
"""The bytes that a header takes at least."""


class RecordColumns:
    """The columns of some records, None for one that is not there."""

    __slots__ = ("headers", "key", "length", "partition", "timestamp", "topic", "value")

    def __init__(
        self,
        length: int,
        value: BytesColumn,
        key: BytesColumn | None = None,
        topic: BytesColumn | None = None,
        partition: NumberColumn | None = None,
        headers: PairsColumn | None = None,
        timestamp: TimestampColumn | None = None,
    ) -> None:
        self.length = length
        """How many records there are."""
        self.value = value
        self.key = key
        self.topic = topic
        self.partition = partition
        self.headers = headers
        self.timestamp = timestamp


class BulkColumns:
    """Neighbouring records of a bulk call that lie in columns: the rows from `start` to `stop`."""

    __slots__ = (
        "_first",
        "_headers",
        "_key",
        "_left",
        "_partition",
        "_scratch",
        "_start",
        "_stop",
        "_timestamp",
        "_topics",
        "_value",
        "accepted",
        "at",
        "bulk",
        "needed",
        "numbers",
        "places",
        "timestamp",
    )

    def __init__(
        self,
        bulk: RowsCall,
        columns: RecordColumns,
        start: int,
        stop: int,
        first: int,
        errors_by_topic: dict[str, AioprodError],
    ) -> None:
        """`errors_by_topic` says of topics of the call why no record can go there; the caller adds to it."""
        self.bulk = bulk
        self.timestamp = 0
        """The timestamp in ms of rows without one; the caller keeps it up to date."""
        self._first = first
        """The index in the call of the first of them."""
        self._start = start
        self._stop = stop
        self._value = columns.value
        self._key = columns.key
        self._topics = None if columns.topic is None else RowTopics(columns.topic, bulk, errors_by_topic)
        self._partition = columns.partition
        self._headers = columns.headers
        self._timestamp = columns.timestamp
        self._left = 0
        """What is left of `BYTES_PER_TURN` in this turn of the loop."""
        self._scratch = bytearray(256)
        self.places = array("i", [-1]) * (stop - start)
        """The partition of each record, -1 for those that are not accepted."""
        self.numbers = array("i", [0]) * (0 if columns.topic is None else stop - start)
        """The number of the topic of each record if there is a column of topics."""
        self.at = start
        """The next row to deal with."""
        self.accepted = 0
        """How many rows were accepted."""
        self.needed = 0
        """The room in bytes that the next row did not find."""

    @property
    def left(self) -> int:
        """How many rows have not been dealt with."""
        return self._stop - self.at

    @property
    def unknown(self) -> str | None:
        """The topic that the next row waits for, if for any."""
        return None if self._topics is None else self._topics.unknown

    def append(self, accumulator: Accumulator, topic: Topic | None, now: float) -> bool:
        """Append what is left, up to `BYTES_PER_TURN`; False when there is more.

        Then `needed` or `unknown` say what the next record waits for, if for anything. A record that can't be accepted
        goes to the call's failures. `topic` is that of all rows, and known; None where
        they have a column of topics. `now` is in monotonic seconds.
        """
        self.needed = 0
        accumulator.budget.stuck.forget_full()
        self._left = BYTES_PER_TURN
        if self._topics is not None:
            self._topics.begin_turn()
        while self.at < self._stop:
            try:
                return self._append(accumulator, topic, now)
            except BufferFullError:
                self.needed = accumulator.budget.stuck.size_without_room
                return False
            except AioprodError as error:
                # The frames in a traceback would take more memory than the rows.
                self.bulk.invalid(self._first + self.at - self._start, error.with_traceback(None))
                self.at += 1
                self._left -= _SLOW_ROW_COST
        return True

    def _append(self, accumulator: Accumulator, topic: Topic | None, now: float) -> bool:
        stop = self._stop
        places = self.places
        numbers = self.numbers
        value = self._value
        key = self._key
        choice = accumulator.choice
        key_size = -1
        headers_size = 1
        timestamp = self.timestamp
        in_runs = self._topics is None and self._partition is None and self._headers is None
        in_runs = in_runs and choice.is_built_in and accumulator.fitting_is_enough
        while self.at < stop:
            if self._left <= 0:
                return False
            if in_runs and topic is not None and not topic.stuck_count and self._append_run(accumulator, topic, now):
                continue
            row = self.at
            if self._topics is not None:
                topic = self._topics.find(accumulator, row, now)
                numbers[row - self._start] = self._topics.number
            if topic is None:
                return False
            value.find(row)
            if key is not None:
                key.find(row)
                key_size = key.size
            if self._timestamp is not None:
                timestamp = self._timestamp.ms if self._timestamp.find(row) else self.timestamp
            if self._headers is not None:
                headers_size = self._put_headers(accumulator, topic, row)
            bound = size_bound(key_size, value.size, headers_size)
            accumulator.check_size(topic, bound)
            if not accumulator.budget.fits(bound):
                self.needed = bound
                return False
            self._left -= bound + _ROW_COST
            index = -1
            if self._partition is not None and self._partition.find(row):
                index = choice.explicit(topic, self._partition.value)
            elif not (choice.keyed_is_sticky if key_size >= 0 else choice.is_built_in):
                if key is not None and choice.is_built_in:
                    index = choice.by_key(topic, key.data, key.start, key_size)
                else:
                    self._left -= _SLOW_ROW_COST
                    index = choice.choose(topic, None if key is None else key.get(), value.get(), -1, bound, now)
            if topic.stuck_count:
                accumulator.stuck.admit_at(topic, index, bound, now)
            batch = accumulator.place(
                topic,
                index,
                value.data if key is None else key.data,
                0 if key is None else key.start,
                key_size,
                value.data,
                value.start,
                value.size,
                self._scratch,
                0,
                headers_size,
                timestamp,
                now,
                bound,
            )
            join_bulk(batch, self.bulk)
            places[row - self._start] = batch.partition.index
            self.at += 1
            self.accepted += 1
        return True

    def _append_run(self, accumulator: Accumulator, topic: Topic, now: float) -> bool:
        """Append rows while there is nothing else to do; False for none.

        They have nothing but a key, a value and, perhaps, a time, and their partitions have open batches.
        """
        if self._key is not None:
            return self._append_keyed_run(accumulator, topic, now)
        partition = topic.partitions[topic.sticky.partition]
        batch = partition.open
        if batch is None or now > batch.open_until:
            return False
        builder = batch.builder
        start = builder.position
        budget = accumulator.budget
        end = start + min(self._left, budget.open_to - budget.used) - LOOSE_OVERHEAD
        first = self.at
        stop = self._stop
        if _ROW_COST:
            stop = min(stop, first + self._left // _ROW_COST)
        value = self._value
        timestamp = self.timestamp
        row = first
        try:
            if value.is_plain and self._timestamp is None:
                row += builder.append_column(
                    timestamp,
                    value.data,
                    value.data_size,
                    value.places,
                    value.width,
                    0,
                    value.first + row,
                    value.first + stop,
                    end + LOOSE_OVERHEAD - start,
                )
                return row > first
            while row < stop:
                value.find(row)
                if builder.position + value.size > end:
                    break
                if self._timestamp is not None:
                    timestamp = self._timestamp.ms if self._timestamp.find(row) else self.timestamp
                if not builder.append_from(
                    timestamp, value.data, 0, -1, value.data, value.start, value.size, NO_HEADERS, 0, 1
                ):
                    break
                row += 1
        finally:
            if row > first:
                self._end_run(accumulator, batch, row, builder.position - start, now)
        return row > first

    def _append_keyed_run(self, accumulator: Accumulator, topic: Topic, now: float) -> bool:
        """The same for rows with keys, which go to several partitions."""
        choice = accumulator.choice
        is_sticky = choice.keyed_is_sticky
        sticky = topic.sticky.partition
        partitions = topic.partitions
        key = self._key
        assert key is not None
        value = self._value
        places = self.places
        timestamp = self.timestamp
        end = min(self._left, accumulator.budget.open_to - accumulator.budget.used) - LOOSE_OVERHEAD
        first = row = self.at
        stop = self._stop
        if _ROW_COST:
            stop = min(stop, first + self._left // _ROW_COST)
        times = self._timestamp
        headers = NO_HEADERS
        used: list[Partition] = []
        size = 0
        try:
            while row < stop:
                key.find(row)
                value.find(row)
                if size + key.size + value.size > end:
                    break
                index = sticky
                if key.size >= 0 and not is_sticky:
                    index = choice.by_key(topic, key.data, key.start, key.size)
                partition = partitions[index]
                if partition.open is None or now > partition.open.open_until:
                    break
                if times is not None:
                    timestamp = times.ms if times.find(row) else self.timestamp
                # No name for the batch: each takes two steps more, which count its references.
                taken = partition.open.builder.append_from(
                    timestamp, key.data, key.start, key.size, value.data, value.start, value.size, headers, 0, 1
                )
                if not taken:
                    break
                if not partition.uncounted:
                    used.append(partition)
                partition.uncounted += 1
                partition.uncounted_bytes += taken
                places[row - self._start] = index
                size += taken
                row += 1
        finally:
            self.at = row
            self.accepted += row - first
            self._left -= size + (row - first) * _ROW_COST
            count_runs(accumulator, used, self.bulk, now)
        return row > first

    def _end_run(self, accumulator: Accumulator, batch: Batch, stop: int, size: int, now: float) -> None:
        """The rows up to `stop` are in the batch, where they take `size` bytes."""
        count = stop - self.at
        index = batch.partition.index
        places = self.places
        for row in range(self.at - self._start, stop - self._start):
            places[row] = index
        self.at = stop
        self.accepted += count
        self._left -= size + count * _ROW_COST
        join_bulk(batch, self.bulk, count)
        accumulator.count(batch, count, size, now)

    def _put_headers(self, accumulator: Accumulator, topic: Topic, row: int) -> int:
        """Encode the headers of a row into `_scratch`; how many bytes they take."""
        pairs = self._headers
        assert pairs is not None
        pairs.find(row)
        if pairs.count <= 0:
            self._scratch[0] = 0
            return 1
        # Lists of several rows may share their pairs: a row must not cost more than could be sent of it.
        accumulator.check_size(topic, _PAIR_SIZE_MIN * pairs.count)
        self._left -= pairs.count * _PAIR_COST
        names = pairs.names
        values = pairs.values
        size = memory.varint_size(pairs.count)
        stop = pairs.first + pairs.count
        for pair in range(pairs.first, stop):
            if not pairs.find_pair(pair):
                raise SerializationError(
                    f"The name of header {pair - pairs.first} of a record for topic {topic.name!r} is null."
                )
            size += memory.varint_size(names.size) + names.size + memory.varint_size(values.size)
            if values.size > 0:
                size += values.size
        accumulator.check_size(topic, size)
        if size > len(self._scratch):
            self._scratch = bytearray(2 * size)
        p = self._scratch
        pos = memory.put_varint(p, 0, pairs.count)
        for pair in range(pairs.first, stop):
            pairs.find_pair(pair)
            pos = memory.put_varint(p, pos, names.size)
            memory.copy(p, pos, names.data, names.start, names.size)
            pos = memory.put_varint(p, pos + names.size, values.size)
            if values.size > 0:
                memory.copy(p, pos, values.data, values.start, values.size)
                pos += values.size
        return pos
