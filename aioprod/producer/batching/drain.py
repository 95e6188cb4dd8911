"""What leaves next for one broker: one batch of each ready partition, up to the size of a request."""

from __future__ import annotations

from heapq import heappop
from typing import Final

from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import BrokerQueue, Partition
from aioprod.producer.batching.splitting import split
from aioprod.producer.batching.states import IN_FLIGHT

__all__ = ["close_due", "drain", "end_backoffs", "schedule_all"]

BATCHES_MAX: Final = 1000
"""Batches in one request: a few milliseconds' work on its way out, and again when it is answered."""


def drain(
    accumulator: Accumulator, queue: BrokerQueue, now: float, size_max: int, raw_max: int, unfinished: bool
) -> list[Batch]:
    """Take batches off the queue of a broker, at least one if there is any, each of another partition.

    `size_max` bounds the sum of their uncompressed sizes in bytes, `raw_max` that of those which are yet to be
    compressed, `BATCHES_MAX` their number; `unfinished` lets batches that are still open leave too. Partitions take
    turns: a partition that was served goes to the end of the queue.
    """
    close_due(accumulator, queue, now)
    queue.round += 1
    batches: list[Batch] = []
    size = raw = 0
    left = len(queue.ready)
    while left > 0 and queue.ready:
        left -= 1
        partition = queue.ready[0]
        if not may_send(accumulator, partition, now):
            queue.ready.popleft()
            partition.listed = False
            continue
        batch = partition.first()
        assert batch is not None
        if is_too_large(batch):
            split(accumulator, batch, now)
            # Where its parts are not the first now, they are behind partitions that were served: they leave next time.
            if queue.ready and queue.ready[0] is partition:
                left += 1
            continue
        is_open = batch is partition.open
        if is_open or is_prepared(accumulator, batch):
            batch_size = batch.builder.size
            size += batch_size
            raw += 0 if batch.builder.compressed else batch_size
            if batches and (size > size_max or raw > raw_max or len(batches) == BATCHES_MAX):
                return batches
        queue.ready.popleft()
        partition.listed = False
        if is_open:
            accumulator.close_batch(batch, now)
        if is_prepared(accumulator, batch):
            batches.append(take(accumulator, partition, now))
    if not unfinished:
        return batches
    for partition in list(queue.unfinished):
        open_batch = partition.open
        if partition.round == queue.round or open_batch is None:
            continue
        if not may_send(accumulator, partition, now):
            queue.unfinished.pop(partition)
            continue
        if open_batch.units > 1 and now < queue.paced_until and queue.in_flight:
            continue
        batch_size = open_batch.builder.size
        size += batch_size
        raw += batch_size
        if batches and (size > size_max or raw > raw_max or len(batches) == BATCHES_MAX):
            break
        accumulator.close_batch(open_batch, now)
        if is_prepared(accumulator, open_batch):
            batches.append(take(accumulator, partition, now))
        else:
            size -= batch_size
            raw -= batch_size
    return batches


def may_send(accumulator: Accumulator, partition: Partition, now: float) -> bool:
    """Whether a partition that was listed may still send.

    It may not if a batch that it had on the wire has failed since, or if it is not in the transaction yet.
    """
    return not partition.muted(now) and (accumulator.sequences is None or accumulator.sequences.admits(partition))


def is_too_large(batch: Batch) -> bool:
    """Whether a batch was closed before its topic's limit was known, and would be rejected."""
    limit = batch.partition.topic.size_limit
    if limit is None or batch.attempts or batch.compressing or batch.withdrawn:
        return False
    return limit.forbids(batch)


def is_prepared(accumulator: Accumulator, batch: Batch) -> bool:
    """Whether a finished batch can leave as it is; what was withdrawn from it is taken out first."""
    if batch.withdrawn and not batch.compressing:
        accumulator.pool.release(batch.compact(bytearray(len(batch.builder.buffer))))
        if accumulator.compress is not None:
            accumulator.compress(batch)
    return not batch.compressing


def take(accumulator: Accumulator, partition: Partition, now: float) -> Batch:
    """The first queued batch of a partition goes in flight."""
    batch = partition.queued[0]
    # All that could fail comes first: until then the batch is queued.
    if accumulator.sequences is not None and batch.base_sequence < 0:
        accumulator.sequences.stamp(partition, batch)
    partition.topic.count_queued(partition.index, -batch.units)
    partition.queued.popleft()
    partition.in_flight += 1
    if partition.queue is not None:
        partition.round = partition.queue.round
    partition.retry_at = 0.0
    if batch.topic_id is None:
        batch.topic_id = partition.topic.topic_id
    batch.state = IN_FLIGHT
    batch.attempts += 1
    batch.on_wire = True
    partition.enlist(now, accumulator.linger_s)
    return batch


def close_due(accumulator: Accumulator, queue: BrokerQueue, now: float) -> None:
    """Let the open batches count as ready that have lingered long enough; those that are not full are closed."""
    while queue.next_due() <= now:
        batch = heappop(queue.lingering)[2]
        partition = batch.partition
        if partition in queue.unfinished:
            if batch.units > 1:
                partition.enlist(now, accumulator.linger_s)
            else:
                accumulator.end_linger(partition, now)


def schedule_all(accumulator: Accumulator) -> None:
    """Have each queue drained that has work."""
    for queue in accumulator.queues.values():
        if queue.has_work():
            queue.drain_soon()


def end_backoffs(accumulator: Accumulator, now: float) -> float | None:
    """List the partitions whose backoff is over; when the next one ends, None if none is waiting."""
    delayed = accumulator.delayed
    while delayed:
        retry_at, _, partition = delayed[0]
        if retry_at > now and partition.retry_at == retry_at:
            return retry_at
        heappop(delayed)
        partition.enlist(now, accumulator.linger_s)
    return None
