"""Buffers: small ones, full ones and larger ones, which are used again from the full size on."""

from __future__ import annotations

from aioprod.producer.batching.buffer_memory import BUFFER_OVERHEAD, BufferPool
from aioprod.records.layout import HEADER, PREFIX


def test_small_at_first() -> None:
    pool = BufferPool(16_384, 1_000_000)
    assert pool.full_size == PREFIX + 16_384 + 1
    assert len(pool.acquire(10)) == 1024
    assert len(pool.acquire(1024 - BUFFER_OVERHEAD)) == 1024
    assert len(pool.acquire(1025 - BUFFER_OVERHEAD)) == pool.full_size
    assert len(pool.acquire(10_000)) == pool.full_size


def test_a_record_over_the_batch_size_gets_what_it_needs() -> None:
    pool = BufferPool(1000, 1_000_000)
    assert len(pool.acquire(5000)) == 5000 + BUFFER_OVERHEAD


def test_small_batches_are_full_size_at_once() -> None:
    pool = BufferPool(500, 1_000_000)
    assert len(pool.acquire(10)) == pool.full_size == PREFIX + 500 + 1


def test_a_batch_size_of_nothing_makes_batches_of_one() -> None:
    pool = BufferPool(0, 1000)
    assert pool.full_size == PREFIX + HEADER + 1
    buffer = pool.acquire(30)
    assert len(buffer) == 30 + BUFFER_OVERHEAD
    assert pool.larger(buffer, 40) is None


def test_grows_to_the_full_size_at_once() -> None:
    pool = BufferPool(16_384, 1_000_000)
    buffer: bytearray | None = pool.acquire(10)
    sizes = []
    while buffer is not None:
        sizes.append(len(buffer))
        buffer = pool.larger(buffer, len(buffer) - BUFFER_OVERHEAD + 1)
    assert sizes == [1024, pool.full_size]


def test_does_not_grow_where_the_record_would_not_fit_anyway() -> None:
    pool = BufferPool(16_384, 1_000_000)
    assert pool.larger(pool.acquire(10), 16_384) is None


def test_full_size_buffers_are_used_again() -> None:
    pool = BufferPool(2000, 5000)
    first, second, third = (bytearray(pool.full_size) for _ in range(3))
    for buffer in (first, second, third):
        pool.release(buffer)
    assert pool.free == [first, second], "no more than the pool may keep"
    pool.release(bytearray(100))
    assert pool.free == [first, second]
    assert pool.acquire(10) is second
    assert pool.acquire(10) is first
    assert len(pool.acquire(10)) == 1024


def test_larger_buffers_are_used_again_by_their_size() -> None:
    pool = BufferPool(1000, 10_000)
    large, larger = pool.acquire_grown(2000), pool.acquire_grown(4000)
    assert (len(large), len(larger)) == (2000, 4000)
    pool.release(large)
    pool.release(larger)
    assert pool.acquire_grown(4000) is larger
    assert pool.acquire_grown(4000) is not larger
    assert pool.acquire_grown(2000) is large
    pool.release(bytearray(3000))
    assert len(pool.acquire_grown(3000)) == 3000, "a size that no batch has grown to is not kept"


def test_larger_buffers_make_room_for_the_size_that_is_in_use() -> None:
    pool = BufferPool(1000, 10_000)
    old = [pool.acquire_grown(4000) for _ in range(3)]
    new = [pool.acquire_grown(2000) for _ in range(6)]
    for buffer in old + new:
        pool.release(buffer)
    again = [pool.acquire_grown(2000) for _ in range(6)]
    assert [any(one is buffer for buffer in new) for one in again] == [True] * 5 + [False]
    assert not any(pool.acquire_grown(4000) is buffer for buffer in old)
