"""Where accepted records are until they are sent: batches per partition, parked records per unknown topic, one budget.

Everything here costs the same with one topic and with ten thousand: a record touches its own partition only, and what
has something to send is in the lists of its broker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from random import Random
from typing import Any, Final

from aioprod._user_code import raise_later
from aioprod.cluster import Metadata
from aioprod.cluster.names import topic_name_error
from aioprod.errors import InvalidTopicError
from aioprod.producer.batching.accumulator_settings import AccumulatorSettings
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.batch_events import BatchEvents
from aioprod.producer.batching.buffer_memory import BufferPool, MemoryBudget, buffer_full, record_too_large
from aioprod.producer.batching.growth import SMALLEST_RECORD, BatchGrowth
from aioprod.producer.batching.partition import BrokerQueue, Partition, Topic
from aioprod.producer.batching.partition_choice import PartitionChoice
from aioprod.producer.batching.sequences import Sequences
from aioprod.producer.batching.states import COMPLETED
from aioprod.producer.batching.stuck import StuckRecords
from aioprod.producer.batching.stuck_share import StuckShare
from aioprod.records.bounds import LOOSE_OVERHEAD, record_size_bound
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.layout import HEADER
from aioprod.routing.partitioners import Partitioner
from aioprod.routing.sticky import StickyChoice
from aioprod.types import TopicPartition
from aioprod.wire.buffer import Buffer

__all__ = ["Accumulator"]

_OPEN_SHARE: Final = 0.1
"""An open batch takes records for this share of `delivery.timeout.ms`, or for `linger.ms` if that is longer."""

_TOUCH_S: Final = 1.0
"""How often a topic in use is marked as such in the metadata, which forgets unused ones after minutes."""


class Accumulator:
    """Takes records, and keeps them in order per partition until their outcome is known."""

    def __init__(
        self,
        settings: AccumulatorSettings,
        *,
        metadata: Metadata,
        random: Random,
        events: BatchEvents,
        due: Callable[[float], object],
        partitioner: Partitioner | None = None,
        compress: Callable[[Batch], object] | None = None,
        sequences: Sequences | None = None,
        caller: Callable[[], object] = lambda: None,
    ) -> None:
        self.settings = settings
        self.compress = compress
        """Takes each batch that takes no more records and is not compressed; None if none ever will be."""
        self.sequences = sequences
        """They number the batches; None without idempotence."""
        self.metadata = metadata
        self.linger_s = settings.linger_s
        self.budget = MemoryBudget(settings.buffer_memory, StuckShare(settings.stuck_memory, caller))
        self.pool = BufferPool(settings.batch_size, settings.buffer_memory // 2)
        self.topics: dict[str, Topic] = {}
        self.parked_topics: dict[str, Topic] = {}
        self.queues: dict[int, BrokerQueue] = {}
        self.incomplete: OrderedDict[Batch, None] = OrderedDict()
        """Every batch without outcome, the oldest first."""
        self._newest_deadline = 0.0
        self._is_ordered = True
        self.delayed: list[tuple[float, int, Partition]] = []
        """The partitions that back off: a heap by the end of the backoff."""
        self.serial = 0
        self.growth = BatchGrowth(settings, self.pool, compresses=compress is not None)
        self._open_s = max(settings.linger_s, settings.delivery_timeout_s * _OPEN_SHARE)
        """How long a batch takes records at most: the last one shares the deadline of the first."""
        self._bound_max = min(settings.max_request_size - HEADER, settings.buffer_memory)
        self.fitting_is_enough = self.pool.full_size <= self._bound_max
        """What fits into a batch of the full size is never too large for a request: no record has to be checked."""
        self.choice = PartitionChoice(
            partitioner,
            metadata=metadata,
            ignore_keys=settings.ignore_keys,
            full=self.full,
            raised=events.partitioner_raised,
        )
        self.stuck = StuckRecords(
            self.budget, self.choice, incomplete=self.incomplete, topics=self.topics, parked=self.parked_topics, due=due
        )
        self._events = events
        self.due = due
        """Takes the time of the first deadline, or the present time when a topic is new."""
        self._random = random
        self._last_name: str | None = None
        self._last_topic: Topic | None = None

    # --- taking records

    def append(
        self,
        name: str,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        partition: int,
        timestamp: int,
        waiter: Any,
        now: float,
        granted: int = 0,
    ) -> Batch | ParkedRecord:
        """Take one record; where it is now, for a later withdrawal.

        `partition` -1 lets the partitioner choose, `timestamp` is in ms, `now` in monotonic seconds; `granted`: if
        its room was reserved, the number of its caller, or -1 if the share of what is stuck does not matter either.
        Raises InvalidTopicError, InvalidRecordError, RecordTooLargeError or BufferFullError, and then took nothing.
        """
        topic = self._last_topic if name is self._last_name else None
        if topic is None:
            topic = self.topic(name, now)
        bound = LOOSE_OVERHEAD + len(headers) + (-1 if key is None else len(key))
        bound += -1 if value is None else len(value)  # As `loose_bound`, but without a call for each record.
        if bound > self._bound_max:
            bound = record_size_bound(key, value, headers)
            self.check_size(topic, bound)
        if topic.stuck_count > 0:
            partition = self.stuck.admit(topic, key, value, partition, bound, now, granted)
        if not granted and self.budget.used + bound > self.budget.open_to:
            self.budget.rejected = max(self.budget.rejected, bound)
            self.budget.stuck.note_full(self.choice.place(topic, key, partition), 0)
            raise buffer_full(name, bound, self.budget, now)
        if topic.parked is not None:
            return self._park(topic, key, value, headers, partition, timestamp, waiter, now, bound)
        batch = self.put(topic, key, value, headers, partition, timestamp, now, bound)
        batch.waiters.append(waiter)
        return batch

    def topic(self, name: str, now: float) -> Topic:
        """The topic of that name; a new one is looked up. Raises InvalidTopicError for an illegal name."""
        topic = self.topics.get(name) if isinstance(name, str) else None
        if topic is None:
            reason = topic_name_error(name)
            if reason is not None:
                raise InvalidTopicError(reason)
            settings = self.settings
            sticky = StickyChoice(self._random, batch_size=settings.batch_size, adaptive=settings.adaptive_partitioning)
            topic = self.topics[name] = self.parked_topics[name] = Topic(name, sticky, self._events.withdraw)
            self.metadata.add_topic(name, now)
            self.due(now)
            self.update_topic(topic, now)
        self._last_name = name
        self._last_topic = topic
        return topic

    def check_size(self, topic: Topic, bound: int) -> None:
        """Raise RecordTooLargeError for a record of up to `bound` bytes that could never be taken."""
        if bound > self._bound_max:
            raise record_too_large(topic.name, bound, self.settings.max_request_size, self.budget.limit)

    def _park(
        self,
        topic: Topic,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        partition: int,
        timestamp: int,
        waiter: Any,
        now: float,
        bound: int,
    ) -> ParkedRecord:
        deadline = now + min(self.settings.max_block_s, self.settings.delivery_timeout_s)
        record = ParkedRecord(topic, key, value, headers, partition, timestamp, waiter, bound, now, deadline)
        if not topic.parked:
            # It may be known already that there is no such topic.
            self.due(now)
        assert topic.parked is not None
        if self.budget.used > self.budget.stuck.limit:
            self.stuck.attend(topic, bound, now)
        topic.parked.append(record)
        topic.parked_bytes += bound
        self.budget.take(bound)
        return record

    def put(
        self,
        topic: Topic,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        partition: int,
        timestamp: int,
        now: float,
        bound: int,
    ) -> Batch:
        """Choose the partition of a record and encode it there; the caller sees to the room, and adds the waiter."""
        choice = self.choice
        is_sticky = partition < 0 and (choice.is_built_in if key is None else choice.keyed_is_sticky)
        index = topic.sticky.partition if is_sticky else choice.choose(topic, key, value, partition, bound, now)
        chosen = topic.partitions[index]
        batch = chosen.open
        # Most records fit into the open batch, and `place` takes as many instructions to call as to encode them.
        if batch is not None and now <= batch.open_until:
            size = batch.builder.append(timestamp, key, value, headers)
            if size:
                self.count(batch, 1, size, now)
                return batch
        return self.place(
            topic,
            -1 if is_sticky else index,
            b"" if key is None else key,
            0,
            -1 if key is None else len(key),
            b"" if value is None else value,
            0,
            -1 if value is None else len(value),
            headers,
            0,
            len(headers),
            timestamp,
            now,
            bound,
        )

    def place(
        self,
        topic: Topic,
        index: int,
        key: Buffer,
        key_start: int,
        key_size: int,
        value: Buffer,
        value_start: int,
        value_size: int,
        headers: Buffer,
        headers_start: int,
        headers_size: int,
        timestamp: int,
        now: float,
        bound: int,
    ) -> Batch:
        """Encode a record into the open batch of partition `index`, -1 for the sticky one; the caller adds the waiter.

        The parts of the record lie somewhere in buffers; a size of -1 stands for null.
        """
        while True:
            chosen = topic.partitions[topic.sticky.partition if index < 0 else index]
            batch = chosen.open
            if batch is not None and now > batch.open_until:
                self.end_linger(chosen, now)
                continue
            if batch is None:
                batch = self._open(chosen, bound, now)
            builder = batch.builder
            size = builder.append_from(
                timestamp,
                key,
                key_start,
                key_size,
                value,
                value_start,
                value_size,
                headers,
                headers_start,
                headers_size,
            )
            if size:
                break
            if not self.growth.fill_buffer(batch, bound):
                self.full(batch, bound, now)
        if not batch.records:
            self.growth.has_first(batch)
        self.count(batch, 1, size, now)
        return batch

    def put_batch(self, partition: Partition, records: RecordBatchBuilder, waiter: Any, now: float) -> None:
        """Copy encoded records into a batch of their own, which later records may join; the caller sees to the room.

        Records of the partition that were taken before leave in a batch before it. `waiter` is that of all of them.
        """
        self.end_linger(partition, now)
        size = records.size - HEADER
        batch = self._open(partition, size, now)
        batch.builder.copy(records)
        batch.waiters.append(waiter)
        self.count(batch, records.count, size, now)

    def count(self, batch: Batch, records: int, size: int, now: float) -> None:
        """Records of `size` bytes were encoded into an open batch: count them, and close the batch when it is full.

        They are taken, so that no error may reach their caller any more: a batch that can't be closed, as the stack or
        the memory is used up, is closed by the next record for it or when it has lingered.
        """
        batch.records += records
        batch.record_bytes += size
        self.budget.take(size, records)
        self.serial += records
        if batch.builder.position + SMALLEST_RECORD > batch.full_position:
            try:
                self.full(batch, SMALLEST_RECORD, now)
            except BaseException as error:
                raise_later(error)
                self.due(now)

    # --- batches

    def _open(self, partition: Partition, bound: int, now: float) -> Batch:
        if self.budget.used > self.budget.stuck.limit:
            self.stuck.attend(partition, bound, now)
        builder = RecordBatchBuilder(self.growth.buffer(partition, bound))
        batch = Batch(partition, builder, self.serial, now, now + self.settings.delivery_timeout_s)
        batch.open_until = now + self._open_s
        self.growth.begin(batch, bound, now)
        partition.topic.count_queued(partition.index, 1)
        partition.open = batch
        try:
            if not self.incomplete:
                self.due(batch.deadline)
            self.track(batch)
            topic = partition.topic
            if now - topic.touched_at >= _TOUCH_S:
                topic.touched_at = now
                self.metadata.touch(topic.name, now)
            partition.enlist(now, self.linger_s)
        except BaseException:
            # The stack or the memory is used up: no batch without records may stay behind.
            partition.dequeue(batch)
            self.growth.closed(batch)
            batch.state = COMPLETED
            self.incomplete.pop(batch, None)
            raise
        return batch

    def full(self, batch: Batch, bound: int, now: float) -> None:
        """An open batch has no room for a record of `bound` bytes: it grows, and may leave, or is closed."""
        partition = batch.partition
        if self.budget.used > self.budget.stuck.limit:
            self.stuck.attend(partition, bound, now)
        was_full = batch.units > 1
        units = self.growth.extend(batch, bound, now)
        if units < 0:
            self._close(batch, self.settings.batch_size, now)
            partition.enlist(now, self.linger_s)
            return
        partition.topic.count_queued(partition.index, units)
        partition.end_turn(units * self.settings.batch_size, self.settings.availability_timeout_s, now)
        if units and not was_full:
            partition.enlist(now, self.linger_s)

    def end_linger(self, partition: Partition, now: float) -> None:
        """Let the open batch, if there is one, leave without lingering."""
        if partition.open is not None:
            self.close_batch(partition.open, now)
            partition.enlist(now, self.linger_s)

    def close_batch(self, batch: Batch, now: float) -> None:
        """An open batch takes no more records, although it may not be full."""
        self._close(batch, batch.builder.size - (batch.units - 1) * self.settings.batch_size, now)

    def _close(self, batch: Batch, size: int, now: float) -> None:
        self.growth.closed(batch)
        batch.partition.close_batch()
        if self.compress is not None:
            self.compress(batch)
        batch.partition.end_turn(size, self.settings.availability_timeout_s, now)

    def track(self, batch: Batch) -> None:
        """A batch is without outcome from now on; it may be older than others that are."""
        self._newest_deadline, newest = max(batch.deadline, self._newest_deadline), self._newest_deadline
        self._is_ordered = self._is_ordered and batch.deadline >= newest
        self.incomplete[batch] = None

    def sort_incomplete(self) -> None:
        """Put `incomplete` in order of the deadlines, if older batches came in after others."""
        if not self._is_ordered:
            batches = sorted(self.incomplete, key=lambda batch: batch.deadline)
            self.incomplete.clear()
            self.incomplete.update(dict.fromkeys(batches))
            self._is_ordered = True

    # --- topics

    def update_topic(self, topic: Topic, now: float) -> None:
        """Bring one topic in line with the cluster snapshot."""
        cluster = self.metadata.cluster
        infos = cluster.partitions_for_topic(topic.name)
        if not infos:
            return
        topic_id = cluster.topic_id(topic.name)
        topic.topic_id = None if topic_id is None else topic_id.bytes
        for index in range(len(topic.partitions), len(infos)):
            topic.partitions.append(Partition(topic, index, self.settings.partition_in_flight_max))
        topic.count = len(infos)
        available = [info.partition for info in infos if info.leader is not None]
        rack = self.settings.near_rack
        near = [info.partition for info in infos if rack and info.leader is not None and info.leader.rack == rack]
        topic.sticky.set_partitions(topic.count, available, near)
        for partition in topic.partitions[topic.count :]:
            self._follow(partition, None, -1, now)
        for info in infos:
            queue = None if info.leader is None else self.queue(info.leader.id)
            epoch = cluster.leader_epoch(TopicPartition(topic.name, info.partition))
            self._follow(topic.partitions[info.partition], queue, epoch, now)
        if not topic.parked:
            self.unpark(topic)

    def _follow(self, partition: Partition, queue: BrokerQueue | None, epoch: int, now: float) -> None:
        old = partition.queue
        if queue is old and epoch == partition.leader_epoch:
            return
        had_leader = old is not None or partition.leader_epoch >= 0
        partition.leader_epoch = epoch
        if queue is not old:
            # Another leader is the reason to retry at once. A higher epoch of the same one is none: it would let a
            # broker that keeps naming higher ones have the batch sent without end.
            if queue is not None:
                partition.retry_at = 0.0
            partition.delist()
            partition.queue = queue
            if had_leader:
                self._events.leader_changed(partition, old)
        partition.enlist(now, self.linger_s)

    def unpark(self, topic: Topic) -> None:
        """Nothing is parked for the topic any more: its records go straight to their partitions from now on."""
        topic.parked = None
        self.parked_topics.pop(topic.name, None)

    def drop(self, topic: Topic) -> None:
        """Forget a topic for which nothing is held, so that a later record looks it up again."""
        self.topics.pop(topic.name, None)
        self.parked_topics.pop(topic.name, None)
        self._last_name = self._last_topic = None

    def queue(self, node_id: int) -> BrokerQueue:
        """The queue of a broker, made at first use."""
        queue = self.queues.get(node_id)
        if queue is None:
            queue = self.queues[node_id] = BrokerQueue(node_id, self._events.drain_soon)
        return queue
