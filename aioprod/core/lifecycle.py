"""What becomes of a batch after it was queued: back for a retry, split, expired, withdrawn, settled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from heapq import heappush

from aioprod.core.accumulator import Accumulator
from aioprod.core.batch import Batch, BatchState, FlushBarrier, Run
from aioprod.core.pool import BUFFER_OVERHEAD
from aioprod.records.builder import RecordBatchBuilder, record_size_bound

__all__ = ["cut_linger", "expired", "flush", "land", "next_expiry", "release", "requeue", "settle", "split", "withdraw"]


def land(accumulator: Accumulator, batch: Batch, now: float) -> bool:
    """The broker answered, or its connection is gone: nobody reads the batch's bytes any more.

    False when the batch had its outcome before (it expired on the wire).
    """
    batch.on_wire = False
    batch.partition.in_flight -= 1
    if batch.state != BatchState.SETTLED:
        return True
    if batch.released:
        accumulator.pool.release(batch.builder.buffer)
    batch.partition.enlist(now, accumulator.settings.linger_s)
    return False


def requeue(accumulator: Accumulator, batch: Batch, now: float, delay_s: float) -> None:
    """Put a batch that landed back in its place; its partition sends nothing for `delay_s`."""
    partition = batch.partition
    if not batch.retrying:
        batch.retrying = True
        partition.retrying += 1
    partition.enqueue(batch)
    partition.topic.count_queued(partition.index, 1)
    if delay_s > 0.0:
        partition.delist()
        partition.retry_at = now + delay_s
        accumulator.serial += 1
        heappush(accumulator.delayed, (partition.retry_at, accumulator.serial, partition))
    partition.enlist(now, accumulator.settings.linger_s)


def settle(accumulator: Accumulator, batch: Batch, now: float) -> None:
    """The outcome of a batch is decided: its partition goes on. Its bytes stay counted until `release`."""
    partition = batch.partition
    if batch.state in (BatchState.OPEN, BatchState.QUEUED):
        partition.dequeue(batch)
    batch.state = BatchState.SETTLED
    if batch.retrying:
        batch.retrying = False
        partition.retrying -= 1
        if not partition.retrying:
            partition.retry_at = 0.0
    accumulator.incomplete.pop(batch, None)
    partition.enlist(now, accumulator.settings.linger_s)


def release(accumulator: Accumulator, batch: Batch) -> None:
    """Everyone who waited for the batch knows: give back its bytes, and its buffer once the wire is done with it."""
    accumulator.budget.release(batch.record_bytes, batch.records)
    batch.waiters = []
    batch.released = True
    if not batch.on_wire:
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


def expired(accumulator: Accumulator, now: float) -> list[Batch]:
    """The batches whose delivery deadline has passed, in whatever state they are."""
    late: list[Batch] = []
    for batch in accumulator.incomplete:
        if batch.deadline > now:
            break
        late.append(batch)
    return late


def next_expiry(accumulator: Accumulator) -> float | None:
    """The earliest delivery deadline, None when nothing is held."""
    for batch in accumulator.incomplete:
        return batch.deadline
    return None


def split(accumulator: Accumulator, batch: Batch, now: float) -> None:
    """Queue the records of a batch that landed and was too large for the broker as batches of half its size (KIP-126).

    The children keep the order, the deadline and the waiters; a flush that waits for the batch waits for them.
    """
    assert batch.builder.count > 1
    children = _halves(batch)
    settle(accumulator, batch, now)
    accumulator.budget.release(batch.record_bytes - sum(child.record_bytes for child in children), 0)
    for child in children:
        for barrier in batch.barriers or ():
            child.hold(barrier)
        accumulator.incomplete[child] = None
        requeue(accumulator, child, now, 0.0)
    accumulator.incomplete = OrderedDict.fromkeys(sorted(accumulator.incomplete, key=lambda held: held.deadline))
    accumulator.pool.release(batch.builder.buffer)
    for barrier in batch.barriers or ():
        barrier.release()


def _halves(batch: Batch) -> list[Batch]:
    children: list[Batch] = []
    size_max = batch.builder.size // 2
    records = batch.builder.records()
    index = 0
    for entry in batch.waiters:
        for position in range(entry.count if type(entry) is Run else 1):
            record = next(records)
            bound = record_size_bound(record.key, record.value, record.headers)
            if not children or children[-1].builder.size + bound > size_max:
                children.append(_child(batch, index, max(size_max, bound)))
            child = children[-1]
            child.record_bytes += child.builder.append(*record)
            if type(entry) is not Run:
                child.waiters.append(entry)
            elif position and child.waiters:
                child.waiters[-1].count += 1
            else:
                child.waiters.append(Run(entry.bulk, entry.first + position, 1))
            index += 1
    return children


def _child(batch: Batch, index: int, size_max: int) -> Batch:
    builder = RecordBatchBuilder(bytearray(BUFFER_OVERHEAD + size_max))
    child = Batch(batch.partition, builder, batch.serial + index, batch.created, batch.deadline)
    child.attempts = batch.attempts
    child.broker = batch.broker
    child.code = batch.code
    child.cause = batch.cause
    child.maybe_stored = batch.maybe_stored
    return child


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
        if batch.state == BatchState.OPEN:
            accumulator.finish(batch.partition, now)
    for topic in accumulator.parked_topics.values():
        for record in topic.parked or ():
            record.hold(barrier)
    barrier.release()
    return barrier


def cut_linger(accumulator: Accumulator, now: float) -> None:
    """Somebody waits for memory: open batches leave without lingering."""
    for queue in accumulator.queues.values():
        for partition in list(queue.unfinished):
            accumulator.finish(partition, now)
