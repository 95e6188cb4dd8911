"""Retrying a batch in parts: its halves (KIP-126), or its records without the invalid ones (KIP-467)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, Run
from aioprod.producer.batching.buffer_memory import BUFFER_OVERHEAD
from aioprod.producer.batching.lifecycle import complete, requeue
from aioprod.producer.batching.states import IN_FLIGHT
from aioprod.records.bounds import bound_of
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.cursor import RecordCursor

__all__ = ["set_apart", "split"]


def split(accumulator: Accumulator, batch: Batch, now: float) -> None:
    """Queue the records of a batch that is too large for its topic as batches of half its size or less (KIP-126).

    The parts keep order, deadline and waiters; a flush that waits for the batch waits for them.
    """
    assert batch.builder.count > 1
    size_max = batch.builder.size // 2
    limit = batch.partition.topic.size_limit
    if limit is not None:
        size_max = min(size_max, limit.size_max)
    chunks: list[list[int]] = []
    size = size_max
    cursor = RecordCursor(batch.builder)
    while cursor.next():
        bound = bound_of(cursor)
        if size + bound > size_max:
            chunks.append([])
            size = 0
        chunks[-1].append(cursor.index)
        size += bound
    for part in _replace(accumulator, batch, chunks, now, is_whole=True):
        requeue(accumulator, part, now, 0.0)


def set_apart(accumulator: Accumulator, batch: Batch, culprits: Collection[int], now: float) -> Batch:
    """Queue the records of a rejected batch again, without those at the indexes `culprits` (KIP-467).

    Nothing of such a batch was stored. Returns a batch of the culprits, whose outcome is the caller's to decide.
    The others get new sequence numbers, with all that was sent behind them.
    """
    innocent = [index for index in range(batch.builder.count) if index not in culprits]
    assert innocent
    again, apart = _replace(accumulator, batch, [innocent, sorted(culprits)], now, is_whole=False)
    requeue(accumulator, again, now, 0.0)
    apart.state = IN_FLIGHT
    return apart


def _replace(
    accumulator: Accumulator, batch: Batch, chunks: Iterable[list[int]], now: float, *, is_whole: bool
) -> list[Batch]:
    """Put batches of some of its records each in the place of that batch; `is_whole`: all are sent again."""
    waiters = _waiter_of_each(batch)
    parts = [_part(batch, chunk, waiters) for chunk in chunks]
    if accumulator.sequences is not None and batch.base_sequence >= 0:
        if is_whole:
            accumulator.sequences.split(batch, parts)
        else:
            accumulator.sequences.lose(batch, is_missing=True)
    complete(accumulator, batch, now)
    accumulator.budget.release(batch.record_bytes - sum(part.record_bytes for part in parts), 0)
    for part in parts:
        for barrier in batch.barriers or ():
            part.add_barrier(barrier)
        part.units = accumulator.growth.units_of(part.builder.size)
        accumulator.track(part)
    accumulator.pool.release(batch.builder.buffer)
    for barrier in batch.barriers or ():
        barrier.remove()
    return parts


def _waiter_of_each(batch: Batch) -> list[Any]:
    waiters: list[Any] = []
    for entry in batch.waiters:
        if type(entry) is Run:
            waiters += [Run(entry.bulk, entry.first + position, 1) for position in range(entry.count)]
        else:
            waiters.append(entry)
    return waiters


def _part(batch: Batch, chunk: list[int], waiters: list[Any]) -> Batch:
    """A batch of the records at the indexes in `chunk`, which ascend."""
    bounds = 0
    cursor = RecordCursor(batch.builder)
    for index in chunk:
        cursor.go_to(index)
        bounds += bound_of(cursor)
    builder = RecordBatchBuilder(bytearray(BUFFER_OVERHEAD + bounds))
    part = Batch(batch.partition, builder, batch.serial + chunk[0], batch.created, batch.deadline)
    part.topic_id = batch.topic_id
    part.attempts = batch.attempts
    part.broker = batch.broker
    part.code = batch.code
    part.cause = batch.cause
    part.maybe_stored = batch.maybe_stored
    cursor = RecordCursor(batch.builder)
    for index in chunk:
        cursor.go_to(index)
        part.records += 1
        part.record_bytes += builder.append_again(cursor)
        _join(part, waiters[index])
    return part


def _join(part: Batch, waiter: Any) -> None:
    last = part.waiters[-1] if part.waiters else None
    if type(waiter) is Run and type(last) is Run and last.bulk is waiter.bulk and _follows(last, waiter):
        last.count += 1
    else:
        part.waiters.append(waiter)


def _follows(last: Run, run: Run) -> bool:
    return last.first + last.count == run.first
