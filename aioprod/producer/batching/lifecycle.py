"""What becomes of a batch after it was queued: retried, expired, withdrawn, completed, released."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush

from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, FlushBarrier
from aioprod.producer.batching.partition import Partition
from aioprod.producer.batching.states import COMPLETED, OPEN, QUEUED

__all__ = [
    "complete",
    "compressed",
    "expired",
    "flush",
    "land",
    "next_expiry",
    "reevaluate",
    "release",
    "requeue",
    "set_producer_id",
    "withdraw",
]


def land(accumulator: Accumulator, batch: Batch, now: float) -> bool:
    """Take a batch off the wire: its broker answered, or its connection is gone, and nothing reads its bytes any more.

    False if the batch was completed before (it expired on the wire).
    """
    batch.on_wire = False
    batch.partition.in_flight -= 1
    if batch.state != COMPLETED:
        return True
    if batch.released:
        accumulator.pool.release(batch.builder.buffer)
    reevaluate(accumulator, batch.partition, now)
    return False


def reevaluate(accumulator: Accumulator, partition: Partition, now: float) -> None:
    """Re-evaluate a partition after a change: resolve its sequence gap, then enlist what may be sent."""
    if accumulator.sequences is not None:
        accumulator.sequences.resolve(partition)
    partition.enlist(now, accumulator.linger_s)


def set_producer_id(accumulator: Accumulator, producer_id: int, epoch: int, now: float) -> None:
    """Set the producer id and epoch that the brokers gave, and re-evaluate the partitions that waited for them."""
    assert accumulator.sequences is not None
    for partition in accumulator.sequences.set_producer_id(producer_id, epoch):
        reevaluate(accumulator, partition, now)


def compressed(accumulator: Accumulator, batch: Batch, now: float) -> bool:
    """The thread is done with the batch, which may be sent. False if it was completed before."""
    batch.compressing = False
    if batch.state != COMPLETED:
        batch.partition.enlist(now, accumulator.linger_s)
        return True
    if batch.released:
        accumulator.pool.release(batch.builder.buffer)
    return False


def requeue(accumulator: Accumulator, batch: Batch, now: float, delay_s: float) -> None:
    """Put a batch back in its place, for a retry if it was sent; its partition sends nothing for `delay_s`."""
    partition = batch.partition
    if batch.attempts and not batch.retrying:
        batch.retrying = True
        partition.retrying += 1
    partition.enqueue(batch)
    partition.topic.count_queued(partition.index, batch.units)
    if accumulator.compress is not None and not batch.sealed:
        accumulator.compress(batch)
    if delay_s > 0.0:
        partition.delist()
        partition.retry_at = now + delay_s
        accumulator.serial += 1
        heappush(accumulator.delayed, (partition.retry_at, accumulator.serial, partition))
    reevaluate(accumulator, partition, now)


def complete(accumulator: Accumulator, batch: Batch, now: float) -> None:
    """Complete a batch: its partition may send the next one. Its bytes stay counted until `release`."""
    partition = batch.partition
    if batch.state == OPEN:
        accumulator.growth.closed(batch)
    if batch.state in (OPEN, QUEUED):
        partition.dequeue(batch)
    batch.state = COMPLETED
    if batch.base_sequence >= 0:
        if partition.unacknowledged[0] is batch:
            partition.unacknowledged.popleft()
        else:
            partition.unacknowledged.remove(batch)
    if batch.retrying:
        batch.retrying = False
        partition.retrying -= 1
        if not partition.retrying:
            partition.retry_at = 0.0
    accumulator.incomplete.pop(batch, None)
    reevaluate(accumulator, partition, now)


def release(accumulator: Accumulator, batch: Batch) -> None:
    """All waiters of the batch were completed: release its bytes, and its buffer once nothing reads it."""
    accumulator.budget.release(batch.record_bytes, batch.records)
    batch.waiters = []
    batch.released = True
    if not batch.on_wire and not batch.compressing:
        accumulator.pool.release(batch.builder.buffer)
    barriers, batch.barriers = batch.barriers, None
    for barrier in barriers or ():
        barrier.remove()


def withdraw(accumulator: Accumulator, batch: Batch, waiter: object, now: float) -> bool:
    """Take a record out of a batch that was not sent yet and free its bytes; False when it is too late."""
    size = batch.withdraw(waiter)
    if not size:
        return False
    accumulator.budget.release(size, 1)
    if batch.records == 0:
        complete(accumulator, batch, now)
        release(accumulator, batch)
    return True


def expired(accumulator: Accumulator, now: float, count_max: int) -> list[Batch]:
    """The oldest of the batches whose delivery deadline has passed, in whatever state they are."""
    accumulator.sort_incomplete()
    late: list[Batch] = []
    for batch in accumulator.incomplete:
        if batch.deadline > now or len(late) == count_max:
            break
        late.append(batch)
    return late


def next_expiry(accumulator: Accumulator) -> float | None:
    """The earliest delivery deadline, None when nothing is held."""
    accumulator.sort_incomplete()
    for batch in accumulator.incomplete:
        return batch.deadline
    return None


def flush(accumulator: Accumulator, completed: Iterable[Batch], now: float, done: Callable[[], None]) -> FlushBarrier:
    """Send everything without lingering; call `done` when the waiters of all present records were completed.

    `completed` are the batches whose outcome is known while their waiters have not been completed yet.
    """
    barrier = FlushBarrier(done)
    barrier.add()
    for batch in completed:
        batch.add_barrier(barrier)
    for batch in accumulator.incomplete:
        batch.add_barrier(barrier)
        if batch.state == OPEN:
            accumulator.end_linger(batch.partition, now)
    for topic in accumulator.parked_topics.values():
        for record in topic.parked or ():
            if not record.withdrawn:
                record.add_barrier(barrier)
    barrier.remove()
    return barrier
