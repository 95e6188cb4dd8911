"""A producer of aioprod's that also takes whole batches, and has what the calls of aiokafka need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aioprod.cluster import Cluster
from aioprod.compat.aiokafka.deliveries import BatchDelivery
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, ProducerClosedError, UnknownTopicError
from aioprod.messages import MetadataRequest, MetadataResponse
from aioprod.producer import Producer
from aioprod.producer.batching.batch import Run
from aioprod.producer.batching.buffer_memory import buffer_full
from aioprod.producer.guard import State
from aioprod.producer.logs.milestones import Facade
from aioprod.producer.producer_calls import ProducerCalls
from aioprod.producer.transactions.states import TransactionState
from aioprod.records.bounds import RECORD_OVERHEAD_MAX, bound_of
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.cursor import RecordCursor
from aioprod.records.layout import HEADER
from aioprod.types import RecordMetadata

__all__ = ["SendingProducer"]

_ENDING: Final = (TransactionState.COMMITTING, TransactionState.COMMITTED, TransactionState.ABORTING)


class SendingProducer(Producer):
    """A `Producer` with the steps that aiokafka's calls are made of.

    It uses the engine alone: other attributes of a compiled `Producer` can't be seen from Python.
    """

    __slots__ = ()

    def __init__(self, config: ProducerConfig) -> None:
        ProducerCalls.__init__(self, config, None, facade=Facade("AIOKafkaProducer", "stop"))

    async def start(self) -> None:
        """Connect; a start that raised leaves the producer as new, unless it was closed meanwhile.

        So a caller may try again with the same object.
        """
        is_first = self._engine.guard.state is State.NEW
        try:
            await super().start()
        except ProducerClosedError:
            raise
        except BaseException:
            if is_first:
                SendingProducer.__init__(self, self.config)
            raise

    @property
    def is_stuck_full(self) -> bool:
        """Whether the last BufferFullError was for a record that can't be delivered now, while others are."""
        return self._engine.parts.accumulator.budget.stuck.size_without_room > 0

    @property
    def cluster(self) -> Cluster:
        """What is known of brokers and of the topics in use; empty before the start."""
        return self._engine.parts.client.metadata.cluster if self.is_started else Cluster()

    @property
    def is_started(self) -> bool:
        """Whether `start()` has succeeded, also after the end."""
        return self._engine.guard.state not in (State.NEW, State.STARTING) and hasattr(self._engine, "parts")

    @property
    def is_usable(self) -> bool:
        """Whether it runs and has not failed."""
        return self._engine.guard.state is State.RUNNING and self._engine.guard.cause is None

    @property
    def is_in_transaction(self) -> bool:
        """Whether records and offsets of a transaction are taken now."""
        transactions = self._engine.transactions
        return transactions is not None and transactions.state is TransactionState.IN_TRANSACTION

    @property
    def unfinished_end(self) -> Callable[[], Awaitable[None]] | None:
        """The call that joins a commit or abort whose caller was interrupted, None where there is none."""
        transactions = self._engine.transactions
        if transactions is None or transactions.state not in _ENDING:
            return None
        return self.abort_transaction if transactions.state is TransactionState.ABORTING else self.commit_transaction

    @property
    def fatal_error(self) -> AioprodError | None:
        """Why no transaction will ever be possible again, None as long as it is."""
        transactions = self._engine.transactions
        return None if transactions is None else transactions.fatal_error

    async def abort_if_open(self) -> None:
        """Abort the transaction if one is open; an error of the abort is logged, and raised by the next transaction."""
        await self._abort_open()

    def knows(self, topic: str) -> bool:
        """Whether it runs and the partitions of a topic are known, so that `known` would not wait."""
        if self._engine.guard.state is not State.RUNNING:
            return False
        named = self._engine.parts.accumulator.topics.get(topic)
        return named is not None and named.parked is None

    async def known(self, topic: str) -> None:
        """Wait until the partitions of a topic are known; raises as `partitions_for` does."""
        self._engine.guard.check_running()
        await self._engine.parts.unknown_topics.known(topic, self._engine.max_block_s)

    def any_partition(self, topic: str) -> int:
        """One of the topic's partitions by chance, with a leader if any has one."""
        cluster = self._engine.parts.client.metadata.cluster
        candidates = cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic)
        return candidates[int(self._engine.parts.environment.random.random() * len(candidates))].partition

    async def all_metadata(self) -> MetadataResponse:
        """What a broker says of all topics; raises RequestTimedOutError and what else a request raises."""
        self._engine.guard.check_running()
        return await self._engine.parts.client.request(MetadataRequest(topics=None, allow_auto_topic_creation=False))

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        partition: int,
        timestamp: int,
        on_delivery: Callable[[RecordMetadata | None, AioprodError | None], object],
    ) -> None:
        """Accept a record that has been checked: encoded headers, -1 for no partition, `timestamp` in ms.

        Raises BufferFullError, or RecordTooLargeError, and then it was not taken.
        """
        engine = self._engine
        engine.guard.check()
        engine.parts.accumulator.append(
            topic, key, value, headers, partition, timestamp, on_delivery, engine.parts.clock()
        )

    def append_batch(
        self, topic: str, partition: int, records: RecordBatchBuilder, delivery: BatchDelivery, alone: bool
    ) -> None:
        """Accept encoded records as one batch, to which later records may be added unless it is to be `alone`.

        Raises BufferFullError, RecordTooLargeError for a record that no request can hold, and UnknownTopicError for a
        topic that was deleted since it was `known`; then none was taken.
        """
        engine = self._engine
        engine.guard.check()
        accumulator, now = engine.parts.accumulator, engine.parts.clock()
        named = accumulator.topic(topic, now)
        if partition >= len(named.partitions):
            raise UnknownTopicError(f"Topic {topic!r} was deleted while a batch for it waited for room.")
        if records.size + RECORD_OVERHEAD_MAX > accumulator.settings.max_request_size:
            cursor = RecordCursor(records)
            while cursor.next():
                accumulator.check_size(named, bound_of(cursor))
        size = records.size - HEADER
        place = named.partitions[partition]
        accumulator.stuck.check(place, size, now)
        if not accumulator.budget.fits(size):
            accumulator.budget.rejected = max(accumulator.budget.rejected, size)
            accumulator.budget.stuck.note_full(place, 0)
            raise buffer_full(topic, size, accumulator.budget, now)
        accumulator.put_batch(place, records, Run(delivery, 0, records.count), now)
        if alone:
            accumulator.end_linger(place, now)
