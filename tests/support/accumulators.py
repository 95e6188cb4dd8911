"""`Harness`: an `Accumulator` with metadata from the test, and short calls to fill and drain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from aioprod.errors import AioprodError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.accumulator_settings import AccumulatorSettings
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.batch_events import BatchEvents
from aioprod.producer.batching.drain import drain
from aioprod.producer.batching.lifecycle import complete, land, release
from aioprod.producer.batching.parking import move_on
from aioprod.producer.batching.partition import BrokerQueue, Partition, Topic
from aioprod.producer.batching.sequences import Sequences
from aioprod.producer.batching.topic_updates import update_topics
from aioprod.records.headers import NO_HEADERS
from aioprod.routing.partitioners import Partitioner
from tests.support.metadata_answers import broker, new_metadata, partition, response, topic

UNLIMITED = 1000


class Harness(BatchEvents):
    """One accumulator; `woken` are the queues that were scheduled for a drain, `due` the announced deadlines.

    `moves` has partition, old and new leader of each change, None for no leader.
    """

    def __init__(
        self,
        *,
        batch_size: int = 1000,
        batch_size_max: int = 0,
        buffer_memory: int = 100_000,
        stuck_memory: int | None = None,
        max_request_size: int = 10_000,
        linger_s: float = 0.005,
        in_flight_max: int = 1,
        partitioner: Partitioner | None = None,
        ignore_keys: bool = False,
        availability_timeout_s: float = 0.0,
        sequences: Sequences | None = None,
        compress: Callable[[Batch], object] | None = None,
    ) -> None:
        self.woken: list[BrokerQueue] = []
        self.due: list[float] = []
        self.moves: list[tuple[int, int | None, int | None]] = []
        self.metadata = new_metadata()
        settings = AccumulatorSettings(
            batch_size=batch_size,
            batch_size_max=batch_size_max,
            buffer_memory=buffer_memory,
            stuck_memory=buffer_memory if stuck_memory is None else stuck_memory,
            max_request_size=max_request_size,
            metadata_max_age_s=300.0,
            linger_s=linger_s,
            delivery_timeout_s=120.0,
            max_block_s=60.0,
            partition_in_flight_max=in_flight_max,
            ignore_keys=ignore_keys,
            availability_timeout_s=availability_timeout_s,
        )
        self.accumulator = Accumulator(
            settings,
            metadata=self.metadata,
            random=Random(1),
            events=self,
            due=self.due.append,
            partitioner=partitioner,
            sequences=sequences,
            compress=compress,
        )

    def drain_soon(self, queue: BrokerQueue) -> None:
        self.woken.append(queue)

    def leader_changed(self, partition: Partition, old: BrokerQueue | None) -> None:
        before, now = (None if queue is None else queue.node_id for queue in (old, partition.queue))
        self.moves.append((partition.index, before, now))

    def lead(
        self, leaders: Mapping[int, int], *, name: str = "t", epoch: int = 1, now: float = 0.0, update: bool = True
    ) -> None:
        """Set the leaders of a topic's partitions; -1 for none."""
        self.metadata.add_topic(name, now)
        self.metadata.build_request(now, allow_auto_create=True)
        partitions = [
            partition(index, leader=leader, epoch=epoch, error=5 if leader < 0 else 0)
            for index, leader in leaders.items()
        ]
        answer = response(topic(name, partitions), brokers=[broker(node) for node in (1, 2, 3)])
        changed = self.metadata.handle_response(answer, now, version=12)
        if update:
            update_topics(self.accumulator, changed.changed_topics, now)

    def append(
        self,
        value: bytes | None = b"value",
        *,
        key: bytes | None = None,
        partition: int = -1,
        waiter: object = None,
        now: float = 0.0,
        name: str = "t",
        timestamp: int = 1000,
    ) -> Batch | ParkedRecord:
        return self.accumulator.append(name, key, value, NO_HEADERS, partition, timestamp, waiter, now)

    def batch(
        self, value: bytes | None = b"value", *, partition: int = 0, waiter: object = None, now: float = 0.0
    ) -> Batch:
        """Append to a partition, and get the batch that the record went to."""
        placed = self.append(value, partition=partition, waiter=waiter, now=now)
        assert isinstance(placed, Batch)
        return placed

    def drain(
        self,
        node_id: int = 1,
        *,
        now: float = 0.0,
        size_max: int = 10_000,
        raw_max: int = 10_000,
        unfinished: bool = True,
    ) -> list[Batch]:
        return drain(self.accumulator, self.accumulator.queue(node_id), now, size_max, raw_max, unfinished)

    def move_on(self, topic: Topic, limit: int = 10) -> list[tuple[ParkedRecord, AioprodError]]:
        """Move parked records on; those that failed."""
        failed: list[tuple[ParkedRecord, AioprodError]] = []
        move_on(self.accumulator, topic, 0.0, limit, failed)
        return failed

    def acknowledge(self, batch: Batch, now: float = 0.0) -> None:
        """Complete a batch as delivered."""
        assert land(self.accumulator, batch, now)
        complete(self.accumulator, batch, now)
        release(self.accumulator, batch)

    def held(self) -> tuple[int, int]:
        return self.accumulator.budget.records, self.accumulator.budget.used


def values(batch: Batch) -> list[bytes | None]:
    """The values in a batch, in order."""
    return [record.value for record in batch.builder.records()]
