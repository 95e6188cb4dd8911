"""Transactional producers with one interface: ours, and librdkafka's as the reference for the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol, Self

import confluent_kafka
from confluent_kafka import Consumer, KafkaException

from aioprod import Producer, TopicPartition
from aioprod.errors import AioprodError, FlushTimeoutError, RequestTimedOutError, TransactionAbortedError

__all__ = ["CLIENTS", "FATAL_ERRORS", "Ended", "Record", "TransactionalClient"]

TIMEOUT_S: Final = 60.0
TRIES: Final = 5
Record = tuple[int, bytes]
"""Partition and value."""


class Ended(Enum):
    """The outcome of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    FAILED = "failed and aborted"
    UNKNOWN = "unknown"


class TransactionalClient(Protocol):
    """One producer with a transactional id."""

    async def start(self) -> Self:
        """Start the producer, which fences earlier ones with its id."""

    async def transact(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        commit: bool,
        flush: bool = False,
        offsets: Mapping[TopicPartition, int] | None = None,
        consumer: Consumer | None = None,
    ) -> Ended:
        """Send records in one transaction, with a group's `offsets`, and end it; with `flush` wait for them before."""

    async def close(self) -> None:
        """End the producer."""


class OurClient:
    """`aioprod.Producer`."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, group: str = "", **options: Any) -> None:
        self._producer: Any = Producer(bootstrap_servers, transactional_id=transactional_id, **options)
        self._group = group

    async def start(self) -> Self:
        await self._producer.start()
        return self

    async def transact(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        commit: bool,
        flush: bool = False,
        offsets: Mapping[TopicPartition, int] | None = None,
        consumer: Consumer | None = None,
    ) -> Ended:
        producer = self._producer
        await producer.begin_transaction()
        futures = []
        try:
            futures += [producer.submit(topic, value, partition=partition) for partition, value in records]
            if flush:
                await producer.flush()
            if offsets:
                await producer.send_offsets_to_transaction(offsets, self._group)
            if commit:
                await self._again(producer.commit_transaction)
            ended = Ended.COMMITTED if commit else Ended.ABORTED
        except TransactionAbortedError:
            ended = Ended.FAILED
        if ended is not Ended.COMMITTED:
            await self._again(producer.abort_transaction)
        await asyncio.gather(*futures, return_exceptions=True)
        return ended

    async def _again(self, call: Callable[[], Any]) -> None:
        """Call commit or abort again after a timeout: they continue meanwhile, and the next call has the outcome."""
        for tries in range(1, TRIES + 1):
            try:
                await call()
                return
            except (RequestTimedOutError, FlushTimeoutError):
                if tries == TRIES:
                    raise

    async def close(self) -> None:
        await self._producer.close()


class ConfluentClient:
    """confluent-kafka's producer, which blocks: its calls run in threads."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, group: str = "") -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, "log_level": 2}
        )

    async def start(self) -> Self:
        await self._again(self._producer.init_transactions, TIMEOUT_S)
        return self

    async def transact(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        commit: bool,
        flush: bool = False,
        offsets: Mapping[TopicPartition, int] | None = None,
        consumer: Consumer | None = None,
    ) -> Ended:
        producer = self._producer
        producer.begin_transaction()
        for partition, value in records:
            producer.produce(topic, value, partition=partition)
        try:
            if flush:
                await asyncio.to_thread(producer.flush, TIMEOUT_S)
            if offsets:
                assert consumer is not None
                places = [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
                await self._again(
                    producer.send_offsets_to_transaction, places, consumer.consumer_group_metadata(), TIMEOUT_S
                )
            if commit:
                await self._again(producer.commit_transaction, TIMEOUT_S)
                return Ended.COMMITTED
            ended = Ended.ABORTED
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            ended = Ended.FAILED
        await self._again(producer.abort_transaction, TIMEOUT_S)
        return ended

    async def _again(self, call: Callable[..., Any], *arguments: Any) -> None:
        for tries in range(1, TRIES + 1):
            try:
                await asyncio.to_thread(call, *arguments)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or tries == TRIES:
                    raise

    async def close(self) -> None:
        await asyncio.to_thread(self._producer.flush, TIMEOUT_S)


CLIENTS: Final[Mapping[str, Callable[..., TransactionalClient]]] = {"aioprod": OurClient, "confluent": ConfluentClient}
"""By their names in tests."""

FATAL_ERRORS: Final = (AioprodError, KafkaException)
"""The exceptions of `transact` when the producer has failed: a commit may have succeeded."""
