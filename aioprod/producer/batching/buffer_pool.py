"""Buffers for batches: recycled at full size, small at first so that an almost empty batch costs little."""

from __future__ import annotations

from aioprod.records.layout import HEADER, PREFIX
from aioprod.wire import memory

__all__ = ["BUFFER_OVERHEAD", "BufferPool"]

BUFFER_OVERHEAD = PREFIX + HEADER + 1
"""Bytes of a buffer that hold no record: room for the Produce prefix, the batch header, one byte for a tag section."""

SMALL = 1024


class BufferPool:
    """Hands out bytearrays for `batch.size`; keeps up to `kept_max` bytes of full-size ones for reuse.

    Reusing a buffer saves the page faults of a fresh one. A partition that gets one record holds about a kilobyte,
    not a full batch, so that ten thousand partitions fit in memory. The next size is the full one, as it is not
    zeroed: pages of it that are never written cost nothing, while each size in between would be copied.
    """

    __slots__ = ("free", "free_max", "full_size")

    def __init__(self, batch_size: int, kept_max: int) -> None:
        self.full_size = PREFIX + max(batch_size, HEADER) + 1
        self.free: list[bytearray] = []
        self.free_max = kept_max // self.full_size

    def acquire(self, need: int) -> bytearray:
        """A buffer with room for `need` record bytes: a recycled one, else a small or a full one."""
        if self.free and need + BUFFER_OVERHEAD <= self.full_size:
            return self.free.pop()
        return memory.room(self.size_class(need))

    def larger(self, buffer: bytearray, need: int) -> bytearray | None:
        """A buffer to grow into, with room for `need` record bytes, or None when `buffer` is at its full size."""
        if len(buffer) >= self.full_size or need + BUFFER_OVERHEAD > self.full_size:
            return None
        return self.acquire(max(need, len(buffer)))

    def release(self, buffer: bytearray) -> None:
        """Take back a buffer that nothing reads any more."""
        if len(buffer) == self.full_size and len(self.free) < self.free_max:
            self.free.append(buffer)

    def size_class(self, need: int) -> int:
        """Buffer length for `need` record bytes: small, else the full size, exact above it."""
        need += BUFFER_OVERHEAD
        if need > self.full_size:
            return need
        return SMALL if need <= SMALL < self.full_size else self.full_size
