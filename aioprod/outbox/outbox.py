"""`Outbox`: putting records into a table, in the transaction of the rows that they are about."""

from __future__ import annotations

import inspect
from typing import Any

from aioprod.cluster.names import topic_name_error
from aioprod.errors import InvalidTopicError, UsageError
from aioprod.outbox.connections import Driver, driver_of
from aioprod.outbox.names import TableNames
from aioprod.outbox.statements import Dialect, Insertion, creation
from aioprod.producer.preparation import as_bytes, partition_index, record_of, timestamp_ms
from aioprod.records.headers import encode_headers, header_list
from aioprod.serializers import Serializer, as_serializer
from aioprod.types import NO_VALUE, Headers, ProducerRecord, Timestamp

__all__ = ["Outbox"]


class Outbox:
    """A table of records that wait for a relay. They are there if the transaction that puts them commits.

        outbox = Outbox("outbox")
        async with connection.transaction():
            await connection.execute("INSERT INTO orders ...")
            await outbox.put(connection, "orders", value, key=customer)

    `table` may be `schema.table`; a second table, `<table>_relay`, is beside it. Serializers are as those of
    `Producer`. It holds no connection and talks to no broker: one object may serve all threads and event loops.
    Raises ConfigError.

    In Postgres `put` notifies a relay that waits. Two-phase commit needs `notifies=False`, as no `PREPARE
    TRANSACTION` works after a notification: the relay then finds the row by its next look, at most a second later.
    """

    def __init__(
        self,
        table: str = "outbox",
        *,
        key_serializer: Any = None,
        value_serializer: Any = None,
        notifies: bool = True,
    ) -> None:
        self.names = TableNames.of(table)
        self._insertion = Insertion(self.names, notifies=notifies)
        self._serializers: tuple[Serializer | None, Serializer | None] = (
            None if key_serializer is None else as_serializer(key_serializer, is_key=True),
            None if value_serializer is None else as_serializer(value_serializer, is_key=False),
        )
        """Those of keys and of values."""

    def __repr__(self) -> str:
        return f"<Outbox {self.names.text!r}>"

    def ddl(self, dialect: Dialect) -> str:
        """The statements that create its tables, for "postgres" or "sqlite"; raises ConfigError for another one."""
        return creation(self.names, dialect)

    def put(
        self,
        connection: Any,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
    ) -> Any:
        """Put a record into the table, in the connection's open transaction. Records of a key keep their order where
        their transactions lock something in common, such as the row of the order, before they put.

        `connection` is one of psycopg, asyncpg, sqlite3, aiosqlite, SQLAlchemy (sessions, too) or Django. What an
        asyncio connection returns has to be awaited. The timestamp is by default the time of the put.

        Raises SerializationError, InvalidRecordError or InvalidTopicError for a record that Kafka would not take,
        UsageError for a connection in autocommit, and what the driver raises: let it roll the transaction back.
        """
        driver = driver_of(connection)
        record = record_of(topic, value, key, partition, headers, timestamp)
        if driver.is_async:
            return self._put_async(driver, connection, record)
        self._put(driver, connection, record)
        return None

    def _put(self, driver: Driver, connection: Any, record: ProducerRecord) -> None:
        topic, headers = _checked_topic(record.topic), header_list(record.headers)
        parts = [
            data if serializer is None else self._serialized_now(serializer, topic, headers, data)
            for serializer, data in zip(self._serializers, (record.key, record.value), strict=True)
        ]
        driver.put(connection, self._insertion, _arguments(record, headers, *parts))

    async def _put_async(self, driver: Driver, connection: Any, record: ProducerRecord) -> None:
        topic, headers = _checked_topic(record.topic), header_list(record.headers)
        parts = []
        for serializer, data in zip(self._serializers, (record.key, record.value), strict=True):
            part = data if serializer is None else serializer.serialize(topic, headers, data)
            parts.append(await part if inspect.isawaitable(part) else part)
        await driver.put(connection, self._insertion, _arguments(record, headers, *parts))

    def _serialized_now(self, serializer: Serializer, topic: str, headers: list[Any], data: Any) -> bytes | None:
        try:
            return serializer.serialize_now(topic, headers, data)
        except UsageError as error:
            raise error.restated(error.message, hint="Put the record by an asyncio connection.") from None


def _checked_topic(topic: object) -> str:
    reason = topic_name_error(topic)
    if reason is not None:
        raise InvalidTopicError(reason)
    return str(topic)


def _arguments(record: ProducerRecord, headers: list[Any], key: Any, value: Any) -> tuple[Any, ...]:
    """What a row has, in the order of `COLUMNS`; raises InvalidRecordError."""
    topic = record.topic
    partition_index(topic, record.partition)
    return (
        topic,
        record.partition,
        None if key is None else as_bytes("key", topic, key),
        None if value is None else as_bytes("value", topic, value),
        encode_headers(headers) if headers else None,
        None if record.timestamp is None else timestamp_ms(topic, record.timestamp),
    )
