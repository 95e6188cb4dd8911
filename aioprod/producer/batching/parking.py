"""Records that wait for their topic's metadata: moved on in order, withdrawn, or failed."""

from __future__ import annotations

from aioprod.errors import AioprodError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.partition import Partition, Topic

__all__ = ["evict", "evict_first", "evict_overdue", "move_on", "withdraw_parked"]


def move_on(
    accumulator: Accumulator,
    topic: Topic,
    now: float,
    limit: int,
    failed: list[tuple[ParkedRecord, AioprodError]],
) -> None:
    """Append up to `limit` parked records of a topic that is known now to their partitions, in order.

    The time in which they were parked counts: a batch is as old as its first record. A flush that waits for one of
    them lets it leave without lingering. Those that can't go there (a partition that does not exist, a partitioner that
    fails) are added to `failed`, each with its reason; their bytes are free again. After any other error the record
    is still parked.
    """
    flushed: dict[Partition, None] = {}
    while topic.parked and topic.count and limit > 0:
        limit -= 1
        record = topic.parked[0]
        if not record.withdrawn:
            try:
                batch = _put(accumulator, topic, record)
            except AioprodError as error:
                if evict(accumulator, record):
                    failed.append((record, error))
            else:
                if record.barriers:
                    flushed[batch.partition] = None
                _moved(accumulator, record, batch)
        # A partitioner may have cancelled the record's future, by which it has left already.
        if topic.parked and topic.parked[0] is record:
            topic.parked.popleft()
    for partition in flushed:
        accumulator.end_linger(partition, now)
    if topic.count and not topic.parked:
        accumulator.unpark(topic)


def _put(accumulator: Accumulator, topic: Topic, record: ParkedRecord) -> Batch:
    return accumulator.put(
        topic,
        record.key,
        record.value,
        record.headers,
        record.partition,
        record.timestamp,
        record.accepted,
        record.size,
    )


def _moved(accumulator: Accumulator, record: ParkedRecord, batch: Batch) -> None:
    """A parked record was encoded into a batch, which has counted its bytes."""
    batch.waiters.append(record.waiter)
    for barrier in record.barriers or ():
        batch.add_barrier(barrier)
    evict(accumulator, record)
    record.moved_to = batch
    # A future refers to its parked record, which would keep it from being freed with its last reference.
    record.key = record.value = record.waiter = None


def evict(accumulator: Accumulator, record: ParkedRecord) -> bool:
    """Take one parked record out and free its bytes; False when it is not parked any more.

    Its place in the queue stays until it is the first.
    """
    if record.moved_to is not None or record.withdrawn:
        return False
    record.withdrawn = True
    accumulator.budget.release(record.size, 1)
    record.topic.parked_bytes -= record.size
    for barrier in record.barriers or ():
        barrier.remove()
    return True


def withdraw_parked(accumulator: Accumulator, record: ParkedRecord) -> bool:
    """Take one parked record out whose waiter is done; False when it is not parked any more."""
    if not evict(accumulator, record):
        return False
    record.key = record.value = record.waiter = None
    record.headers = b""
    parked = record.topic.parked
    while parked and parked[-1].withdrawn:
        parked.pop()
    while parked and parked[0].withdrawn:
        parked.popleft()
    return True


def evict_overdue(accumulator: Accumulator, topic: Topic, now: float, limit: int) -> list[ParkedRecord]:
    """Take out records of a topic whose time (`max.block.ms`) is over; they stand in order of their deadlines."""
    evicted: list[ParkedRecord] = []
    while topic.parked and topic.parked[0].deadline <= now and len(evicted) < limit:
        record = topic.parked.popleft()
        if evict(accumulator, record):
            evicted.append(record)
    return evicted


def evict_first(accumulator: Accumulator, topic: Topic, limit: int) -> list[ParkedRecord]:
    """Take out the first records that are parked for a topic."""
    evicted: list[ParkedRecord] = []
    while topic.parked and len(evicted) < limit:
        record = topic.parked.popleft()
        if evict(accumulator, record):
            evicted.append(record)
    return evicted
