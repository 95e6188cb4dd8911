"""What becomes of a batch after it was queued: back for a retry, expired, withdrawn, settled, released."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush

from aioprod.core.accumulator import Accumulator
from aioprod.core.batch import Batch, FlushBarrier
from aioprod.core.partition import Partition
from aioprod.core.states import OPEN, QUEUED, SETTLED

__all__ = [
    "adopt",
    "compressed",
    "expired",
    "flush",
    "go_on",
    "land",
    "next_expiry",
    "release",
    "requeue",
    "settle",
    "withdraw",
]


def land(accumulator: Accumulator, batch: Batch, now: float) -> bool:
    """The broker answered, or its connection is gone: nobody reads the batch's bytes any more.

    False when the batch had its outcome before (it expired on the wire).
    """
    batch.on_wire = False
    batch.partition.in_flight -= 1
    if batch.state != SETTLED:
        return True
    if batch.released:
        accumulator.pool.release(batch.builder.buffer)
    go_on(accumulator, batch.partition, now)
    return False


def go_on(accumulator: Accumulator, partition: Partition, now: float) -> None:
    """Something has changed for a partition: it sends what it may send now."""
    if accumulator.sequences is not None:
        accumulator.sequences.resolve(partition)
    partition.enlist(now, accumulator.settings.linger_s)


def adopt(accumulator: Accumulator, producer_id: int, epoch: int, now: float) -> None:
    """The brokers have given the producer an id and epoch: partitions that have waited for them go on."""
    assert accumulator.sequences is not None
    for partition in accumulator.sequences.adopt(producer_id, epoch):
        go_on(accumulator, partition, now)


def compressed(accumulator: Accumulator, batch: Batch, now: float) -> bool:
    """No thread reads the batch's bytes any more: it may leave. False when it had its outcome before."""
    batch.compressing = False
    if batch.state != SETTLED:
        batch.partition.enlist(now, accumulator.settings.linger_s)
        return True
    if batch.released:
        accumulator.pool.release(batch.builder.buffer)
    return False


def requeue(accumulator: Accumulator, batch: Batch, now: float, delay_s: float) -> None:
    """Put a batch that landed back in its place; its partition sends nothing for `delay_s`."""
    partition = batch.partition
    if not batch.retrying:
        batch.retrying = True
        partition.retrying += 1
    partition.enqueue(batch)
    partition.topic.count_queued(partition.index, 1)
    if accumulator.compress is not None and not batch.sealed:
        accumulator.compress(batch)
    if delay_s > 0.0:
        partition.delist()
        partition.retry_at = now + delay_s
        accumulator.serial += 1
        heappush(accumulator.delayed, (partition.retry_at, accumulator.serial, partition))
    go_on(accumulator, partition, now)


def settle(accumulator: Accumulator, batch: Batch, now: float) -> None:
    """The outcome of a batch is decided: its partition goes on. Its bytes stay counted until `release`."""
    partition = batch.partition
    if batch.state in (OPEN, QUEUED):
        partition.dequeue(batch)
    batch.state = SETTLED
    if batch.base_sequence >= 0:
        if partition.unsettled[0] is batch:
            partition.unsettled.popleft()
        else:
            partition.unsettled.remove(batch)
    if batch.retrying:
        batch.retrying = False
        partition.retrying -= 1
        if not partition.retrying:
            partition.retry_at = 0.0
    accumulator.incomplete.pop(batch, None)
    go_on(accumulator, partition, now)


def release(accumulator: Accumulator, batch: Batch) -> None:
    """Everyone who waited for the batch knows: give back its bytes, and its buffer once nobody reads it."""
    accumulator.budget.release(batch.record_bytes, batch.records)
    batch.waiters = []
    batch.released = True
    if not batch.on_wire and not batch.compressing:
        accumulator.pool.release(batch.builder.buffer)
    barriers, batch.barriers = batch.barriers, None
    for barrier in barriers or ():
        barrier.release()


def withdraw(accumulator: Accumulator, batch: Batch, waiter: object, now: float) -> bool:
    """Take a record out of a batch that was not sent yet and free its bytes; False when it is too late."""
    size = batch.withdraw(waiter)
    if not size:
        return False
    accumulator.budget.release(size, 1)
    if batch.records == 0:
        settle(accumulator, batch, now)
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


def flush(accumulator: Accumulator, settled: Iterable[Batch], now: float, done: Callable[[], None]) -> FlushBarrier:
    """Let everything leave at once; `done` is called when all that is held now has its outcome and was told it.

    `settled` are the batches whose outcome is decided while those who wait have not been told yet.
    """
    barrier = FlushBarrier(done)
    barrier.hold()
    for batch in settled:
        batch.hold(barrier)
    for batch in accumulator.incomplete:
        batch.hold(barrier)
        if batch.state == OPEN:
            accumulator.finish(batch.partition, now)
    for topic in accumulator.parked_topics.values():
        for record in topic.parked or ():
            if not record.withdrawn:
                record.hold(barrier)
    barrier.release()
    return barrier
