"""aiokafka's producer: its constructor and its calls, with aioprod behind them."""

from __future__ import annotations

import asyncio
import operator
import random
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from aioprod.compat.aiokafka import errors
from aioprod.compat.aiokafka.batch import BatchBuilder, in_bytes, in_milliseconds, plain
from aioprod.compat.aiokafka.client import ClientView, ClusterView
from aioprod.compat.aiokafka.deliveries import BatchDelivery, Delivery
from aioprod.compat.aiokafka.options import DEFAULTS, producer_config, unknown_option
from aioprod.compat.aiokafka.sending import SendingProducer
from aioprod.compat.aiokafka.structs import RecordMetadata
from aioprod.compat.aiokafka.transactions import TransactionContext, Transactions
from aioprod.compat.aiokafka.translation import as_kind, kafka_error
from aioprod.compat.aiokafka.turns import Turns
from aioprod.errors import (
    AioprodError,
    InvalidRecordError,
    MetadataTimeoutError,
)
from aioprod.producer.preparation import partition_index
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.routing.hashes import murmur2_partition

if TYPE_CHECKING:
    import ssl
    from typing import Never, TypeAlias

    from aioprod.compat.aiokafka.tokens import TokenProvider

    Serializer: TypeAlias = Callable[[Any], bytes | None]
    Partitioner: TypeAlias = Callable[[bytes | None, list[int], list[int]], int]
    Headers: TypeAlias = Iterable[tuple[str, bytes | None]]
    Sent: TypeAlias = asyncio.Future[RecordMetadata | None]

__all__ = ["AIOKafkaProducer"]


class AIOKafkaProducer:
    """Sends records to Kafka by the calls of aiokafka 0.14; `docs/migrating-aiokafka.md` lists the differences.

    Options, defaults and errors are aiokafka's. Raises a ValueError for a wrong option, a TypeError for one that does
    not exist. Touches no network before `start()`.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str] = DEFAULTS["bootstrap_servers"],
        client_id: str | None = None,
        metadata_max_age_ms: int = DEFAULTS["metadata_max_age_ms"],
        request_timeout_ms: int = DEFAULTS["request_timeout_ms"],
        api_version: str | None = None,
        acks: Any = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        compression_type: str | None = None,
        max_batch_size: int = DEFAULTS["max_batch_size"],
        partitioner: Partitioner | None = None,
        max_request_size: int = DEFAULTS["max_request_size"],
        linger_ms: int = DEFAULTS["linger_ms"],
        retry_backoff_ms: int = DEFAULTS["retry_backoff_ms"],
        security_protocol: str = DEFAULTS["security_protocol"],
        ssl_context: ssl.SSLContext | None = None,
        connections_max_idle_ms: int | None = DEFAULTS["connections_max_idle_ms"],
        enable_idempotence: bool = False,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = DEFAULTS["transaction_timeout_ms"],
        sasl_mechanism: str = DEFAULTS["sasl_mechanism"],
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = DEFAULTS["sasl_kerberos_service_name"],
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: TokenProvider | None = None,
        **unknown: Never,
    ) -> None:
        given = locals()
        for name in unknown:
            raise unknown_option(name)
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = (
            DefaultPartitioner() if partitioner is None or _is_aiokafkas_default(partitioner) else partitioner
        )
        config = producer_config({name: given[name] for name in DEFAULTS})
        self._producer = SendingProducer(config=config)
        self._transactions = Transactions(self._producer)
        self._is_acknowledged = config.acks != 0
        self._timeout_s = config.request_timeout_ms / 1000
        self._batch_size = config.batch_size
        self._turns = Turns(self._producer, self._timeout_s)
        self._closed = False
        self.client = ClientView(self._producer)

    def __repr__(self) -> str:
        return f"<AIOKafkaProducer over {self._producer!r}>"

    @property
    def _metadata(self) -> ClusterView:
        """The name by which kstreams looks at the cluster."""
        return self.client.cluster

    # --- life

    async def start(self) -> None:
        """Connect to the cluster; raises KafkaConnectionError when no server answers in `request_timeout_ms`.

        It may be called again after it has raised.
        """
        try:
            await self._producer.start()
        except MetadataTimeoutError as error:
            raise as_kind(errors.KafkaConnectionError, error) from error.__cause__
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__

    async def stop(self) -> None:
        """Deliver what was sent, and release everything; a second call does nothing."""
        try:
            await self._producer.close()
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__
        self._closed = True

    async def flush(self) -> None:
        """Wait for the outcome of everything that was sent before; nothing lingers. Returns at once where nothing was.

        That is before `start()`, after one that failed, and after `stop()`.
        """
        if self._closed or not self._producer.is_started:
            return
        try:
            await self._producer.flush()
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # --- records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Headers | None = None,
    ) -> Sent:
        """Accept a record, waiting for its topic to be known and for room; the future has its outcome.

        Each wait takes `request_timeout_ms` at most. Cancelled while it waits, nothing is sent; cancelling the future
        does not stop the record. The future's result is None with `acks=0`.
        """
        if value is None and key is None:
            raise as_kind(
                AssertionError, InvalidRecordError(f"A record for topic {topic!r} has neither key nor value.")
            )
        try:
            topic = plain(topic)
            if type(topic) is not str or not self._producer.knows(topic):
                await self._producer.known(topic)
            self._transactions.check_open()
            key_bytes = in_bytes("key", key if self._key_serializer is None else self._key_serializer(key))
            value_bytes = in_bytes("value", value if self._value_serializer is None else self._value_serializer(value))
            index = self._partition(topic, partition, key_bytes)
            at_ms = in_milliseconds(timestamp_ms)
            delivery = Delivery(asyncio.get_running_loop().create_future(), at_ms, self._is_acknowledged)
            encoded = encode_headers(list(headers)) if headers else NO_HEADERS
            record = (topic, key_bytes, value_bytes, encoded, index, at_ms, delivery.done)
            await self._turns.accepted(self._producer.append, *record)
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__
        return delivery.future

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata | None:
        """Send a record and wait for its outcome: where it is stored, None with `acks=0`."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def partitions_for(self, topic: str) -> set[int]:
        """The indexes of the topic's partitions; raises UnknownTopicOrPartitionError."""
        try:
            return {info.partition for info in await self._producer.partitions_for(plain(topic))}
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__

    # --- batches

    def create_batch(self) -> BatchBuilder:
        """An empty batch, to be filled by its `append()` and given to `send_batch()`."""
        return BatchBuilder(self._batch_size, self._key_serializer, self._value_serializer)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int | None) -> Sent:
        """Accept a whole batch, waiting as `send()` does; the future has the place of its first record."""
        given: object = batch  # Callers without a type checker may give anything.
        if not isinstance(given, BatchBuilder):
            said = f"The batch is of type {type(given).__name__}: give one that create_batch() has made."
            raise as_kind(TypeError, InvalidRecordError(said))
        try:
            topic = plain(topic)
            await self._producer.known(topic)
            index = self._partition(topic, partition, None)
            self._transactions.check_open()
            records = batch.encoded
            future: Sent = asyncio.get_running_loop().create_future()
            if records.count == 0:
                future.set_result(None)
                return future
            is_alone = batch.closed()
            batch.close()
            delivery = BatchDelivery(future, records.count, self._is_acknowledged)
            await self._turns.accepted(self._producer.append_batch, topic, index, records, delivery, is_alone)
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__
        return future

    # --- transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction; raises IllegalOperation without `transactional_id`."""
        await self._transactions.begin()

    async def commit_transaction(self) -> None:
        """Wait for the records of the transaction and commit it."""
        await self._transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction; its records are not visible to readers with read_committed."""
        await self._transactions.abort()

    def transaction(self) -> TransactionContext:
        """A transaction as a block: it commits at its end, and aborts when an exception leaves it."""
        return TransactionContext(self._transactions)

    async def send_offsets_to_transaction(self, offsets: Any, group_id: str) -> None:
        """Commit a group's offsets with the transaction: a dict of TopicPartition to offset, or (offset, metadata)."""
        await self._transactions.send_offsets(offsets, group_id)

    # --- the way in

    def _partition(self, topic: str, partition: int | None, key: bytes | None) -> int:
        """The partition of a record; -1 where the producer is to choose by the key, as aiokafka's default does."""
        if partition is not None:
            count = self._producer.cluster.partition_count(topic)
            chosen = operator.index(partition) if isinstance(partition, SupportsIndex) else -1
            if not 0 <= chosen < count:
                said = f"Topic {topic!r} has no partition {partition!r}: it has {count}."
                raise as_kind(AssertionError, InvalidRecordError(said))
            return chosen
        if isinstance(self._partitioner, DefaultPartitioner):
            return -1 if key is not None else self._producer.any_partition(topic)
        cluster = self._producer.cluster
        everywhere = [info.partition for info in cluster.partitions_for_topic(topic)]
        available = [info.partition for info in cluster.available_partitions_for_topic(topic)]
        return partition_index(topic, self._partitioner(key, everywhere, available))


class DefaultPartitioner:
    """aiokafka's default, for callers of a producer's `_partitioner`, such as kstreams' `send_many()`.

    A record without a partition takes a shorter way to the same choice.
    """

    def __call__(self, key: bytes | None, all_partitions: list[int], available: list[int]) -> int:
        """The partition of a key by Java's hash, or any available one."""
        if key is None:
            return random.choice(available or all_partitions)  # noqa: S311 - it spreads records, it guards no secret
        return all_partitions[murmur2_partition(key, len(all_partitions))]


def _is_aiokafkas_default(partitioner: object) -> bool:
    """Whether it is aiokafka's own default, which FastStream passes on."""
    kind = type(partitioner)
    return kind.__module__ == "aiokafka.partitioner" and kind.__name__ == "DefaultPartitioner"
