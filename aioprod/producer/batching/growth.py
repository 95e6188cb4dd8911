"""Batches that grow: one that is full stays open until a request takes it, in larger and larger buffers."""

from __future__ import annotations

from typing import Final

from aioprod.producer.batching.accumulator_settings import AccumulatorSettings
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.buffer_memory import BufferPool
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.batching.size_limit import SizeLimit
from aioprod.records.layout import HEADER, PREFIX
from aioprod.wire import memory

__all__ = ["SMALLEST_RECORD", "BatchGrowth"]

SMALLEST_RECORD: Final = 7
"""A batch with less room than this takes no further record."""

_ROOM_DECAY: Final = 8
"""By so large a part a partition expects its next batch to be smaller than before, unless it has grown as far again."""

_SLACK: Final = 0.5
"""The share of `buffer.memory` that buffers of open batches may take that begin larger than `batch.size`."""

_UNUSED: Final = 8
"""A batch that is closed with so small a part of its buffer used returns the rest."""

_UNLIMITED: Final = 2**62

_TAIL: Final = 1
"""The byte of a buffer behind the records."""


class BatchGrowth:
    """How large open batches become.

    A batch is full at `batch.size`. Until a request takes it, it grows by units of `batch.size` up to `batch.size.max`:
    the longer a partition waits for its acknowledgements, the more of its records share a batch, and what is
    acknowledged makes the room.
    """

    __slots__ = (
        "_batch_size",
        "_compresses",
        "_full_position",
        "_limit_s",
        "_open_room",
        "_pool",
        "_size_max",
        "_slack",
    )

    def __init__(self, settings: AccumulatorSettings, pool: BufferPool, *, compresses: bool) -> None:
        self._pool = pool
        self._batch_size = settings.batch_size
        """The bytes of a unit."""
        self._size_max = settings.batch_size_max
        """The bytes of a batch that grows no more; below `batch_size` none grows."""
        self._compresses = compresses
        """A full batch with none before it is closed, so that it is compressed when its turn comes."""
        self._limit_s = settings.metadata_max_age_s
        """For how long batches of a topic stay below the size that a broker has rejected, in seconds."""
        self._open_room = 0
        """The bytes of the buffers of open batches that began larger than `batch.size`."""
        self._slack = int(settings.buffer_memory * _SLACK)
        self._full_position = pool.full_size - _TAIL
        """Where the records of one unit end in its buffer."""

    def buffer(self, partition: Partition, bound: int) -> bytearray:
        """A buffer for a batch that begins with a record of at most `bound` bytes.

        It has twice the room that the batches before have grown to, so that nothing is copied where most grow.
        """
        if min(partition.room, self._size_max) > self._batch_size and HEADER + bound <= self._size_max:
            size = self._size_for(max(2 * partition.room, HEADER + bound))
            if self._open_room + size <= self._slack:
                return self._pool.acquire_grown(size)
        return self._pool.acquire(bound)

    def _size_for(self, needed: int) -> int:
        """The bytes of a buffer for `needed` bytes of a batch that grows.

        Each size is twice the one before, so that a byte is copied once on average, and buffers are used again.
        """
        size = self._batch_size
        while size < needed:
            size *= 2
        return PREFIX + min(size, self._size_max) + _TAIL

    def closed(self, batch: Batch) -> None:
        """An open batch takes no more records: return what it has not used of a larger buffer."""
        partition = batch.partition
        partition.room = max(batch.units * self._batch_size, partition.room - partition.room // _ROOM_DECAY)
        if batch.room:
            self._open_room -= batch.room
            if batch.builder.size < batch.room // _UNUSED:
                batch.builder.trim()
            batch.room = 0

    def units_of(self, size: int) -> int:
        """How many batches of `batch.size` a batch of `size` bytes counts for."""
        return (size + self._batch_size - 1) // self._batch_size if self._batch_size else 1

    def begin(self, batch: Batch, bound: int, now: float) -> None:
        """Say where a batch is full that is opened for a record of at most `bound` bytes."""
        batch.full_position = self._full_position
        size = len(batch.builder.buffer)
        if size > self._full_position + _TAIL:
            batch.room = size
            self._open_room += size
            batch.builder.limit_to(max(self._full_position, PREFIX + HEADER + bound))
        topic = batch.partition.topic
        if topic.size_limit is not None:
            end = PREFIX + max(self._limit_of(topic, now), HEADER + bound)
            if end < self._full_position:
                batch.full_position = end
                batch.builder.limit_to(end)

    def has_first(self, batch: Batch) -> None:
        """A batch has its first record: the room beyond a full batch was for that one, and no other gets it."""
        batch.builder.limit_to(max(batch.full_position, batch.builder.position))

    def fill_buffer(self, batch: Batch, bound: int) -> bool:
        """Make room for a record of at most `bound` bytes within the first unit; False where that is full."""
        builder = batch.builder
        if builder.position + bound > batch.full_position:
            return False
        buffer = self._pool.larger(builder.buffer, builder.size - HEADER + bound)
        if buffer is None:
            return False
        self._pool.release(builder.grow(buffer))
        builder.limit_to(batch.full_position)
        return True

    def _limit_of(self, topic: Topic, now: float) -> int:
        """The most bytes of a batch that the topic takes, as far as is known."""
        limit = topic.size_limit
        if limit is None:
            return _UNLIMITED
        if now >= limit.until:
            topic.size_limit = None
            return _UNLIMITED
        return limit.size_max

    def rejected(self, batch: Batch, now: float) -> None:
        """A broker has rejected a batch as too large: let those of its topic stay smaller for a while."""
        topic = batch.partition.topic
        if topic.size_limit is None:
            topic.size_limit = SizeLimit()
        topic.size_limit.rejected(batch, now + self._limit_s)

    def extend(self, batch: Batch, bound: int, now: float) -> int:
        """Make room for a record of at most `bound` bytes in a full batch; by how many units it grew, -1: it may not.

        By none if those that were withdrawn make the room. `now` is in monotonic seconds.
        """
        builder = batch.builder
        partition = batch.partition
        size_max = min(self._size_max, self._limit_of(partition.topic, now))
        if builder.position + bound > PREFIX + size_max or (self._compresses and not partition.queued):
            return -1
        if batch.withdrawn and 2 * batch.record_bytes < builder.size:
            self._pool.release(batch.compact(memory.room(len(builder.buffer))))
            builder = batch.builder
            builder.limit_to(batch.full_position)
            if builder.position + bound <= batch.full_position:
                return 0
        units = max(batch.units + 1, self.units_of(builder.position + bound - PREFIX))
        full_position = PREFIX + min(units * self._batch_size, size_max)
        if full_position + _TAIL > len(builder.buffer):
            self._pool.release(builder.grow(self._pool.acquire_grown(self._size_for(full_position - PREFIX))))
        builder.limit_to(full_position)
        added = units - batch.units
        batch.units = units
        batch.full_position = full_position
        return added
