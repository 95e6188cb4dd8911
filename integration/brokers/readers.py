"""The consumers of a group: aioprod's `Member`, and confluent-kafka's consumer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from aioprod import TopicPartition
from aioprod.group import Member
from integration.brokers.broker import Broker
from integration.brokers.comparing import Record

__all__ = ["Neighbour", "Reading", "member_of"]


def member_of(broker: Broker, group: str, topic: str, **options: Any) -> Member:
    """A member that begins at the first record."""
    return Member(
        broker.bootstrap_servers,
        group_id=group,
        topics=[topic],
        auto_offset_reset="earliest",
        request_timeout_ms=60_000,
        **options,
    )


class Reading:
    """A member of ours that reads on in the background; `records` are those that it was given so far."""

    def __init__(self, member: Member) -> None:
        self.member: Final = member
        self.records: list[Record] = []
        self.error: BaseException | None = None

    @classmethod
    @asynccontextmanager
    async def of(cls, broker: Broker, group: str, topic: str, **options: Any) -> AsyncIterator[Reading]:
        """It commits what it gives up, and leaves at the end of the block."""

        async def commit(partitions: Iterable[TopicPartition]) -> None:
            await member.commit()

        member = member_of(broker, group, topic, on_revoked=commit, **options)
        reading = cls(member)
        async with member:
            task = asyncio.create_task(reading._read())
            try:
                yield reading
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def _read(self) -> None:
        try:
            async for record in self.member:
                self.records.append(Record.of(record))
        except Exception as error:
            self.error = error

    async def places(self) -> set[int]:
        """The partitions that it has; raises what ended it."""
        if self.error is not None:
            raise self.error
        return {tp.partition for tp in self.member.assignment}


class Neighbour:
    """A consumer of confluent-kafka, which polls in a thread."""

    def __init__(self, broker: Broker, group: str, topic: str, settings: Mapping[str, str]) -> None:
        self.records: list[Record] = []
        self.errors: list[KafkaError] = []
        self._places: set[int] = set()
        self._leaving = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
                "log_level": 3,
                **settings,
            }
        )
        self._topic = topic

    @classmethod
    @asynccontextmanager
    async def of(cls, broker: Broker, group: str, topic: str, **settings: str) -> AsyncIterator[Neighbour]:
        """It leaves at the end of the block."""
        neighbour = cls(broker, group, topic, settings)
        task = asyncio.create_task(asyncio.to_thread(neighbour._run))
        try:
            yield neighbour
        finally:
            neighbour._leaving.set()
            await task

    async def places(self) -> set[int]:
        """The partitions that it has; raises KafkaException for an error that it was told."""
        if self.errors:
            raise KafkaException(self.errors[0])
        return self._places

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._leaving.is_set():
            message = self._consumer.poll(0.1)
            self._places = {place.partition for place in self._consumer.assignment()}
            if message is None:
                continue
            if error := message.error():
                self.errors.append(error)
                continue
            self.records.append(_record(message))
        self._consumer.close()


def _record(message: Message) -> Record:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers = tuple(cast("list[tuple[str, bytes | None]]", message.headers() or []))
    return Record(partition, offset, message.key(), message.value(), headers, message.timestamp()[1])
