"""Putting records: what becomes of keys, values and headers, and what is refused so that the transaction rolls back."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from aioprod import ProducerRecord
from aioprod.errors import AioprodError, ConfigError, InvalidRecordError, InvalidTopicError, UsageError
from aioprod.outbox import Outbox
from aioprod.records.headers import decode_headers


def opened(outbox: Outbox) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(outbox.ddl("sqlite"))
    return connection


def rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT topic, partition, key, value, headers, timestamp FROM outbox").fetchall()


def test_a_row_has_what_was_given() -> None:
    outbox = Outbox()
    connection = opened(outbox)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert outbox.put(connection, "orders", b"v", key=b"k", headers=[("a", b"1")], partition=2, timestamp=at) is None
    outbox.put(connection, ProducerRecord("orders", None, key=bytearray(b"k")))
    first, second = rows(connection)
    assert first[:4] == ("orders", 2, b"k", b"v")
    assert decode_headers(first[4], 0, len(first[4])) == (("a", b"1"),)
    assert first[5] == round(at.timestamp() * 1000)
    assert second == ("orders", None, b"k", None, None, None)


def test_serializers_are_those_of_a_producer() -> None:
    def with_header(topic: str, headers: list[Any], value: object) -> bytes:
        headers.append(("topic", topic.encode()))
        return json.dumps(value).encode()

    outbox = Outbox(key_serializer=str.encode, value_serializer=with_header)
    connection = opened(outbox)
    outbox.put(connection, "orders", {"a": 1}, key="k")
    ((_, _, key, value, headers, _),) = rows(connection)
    assert (key, value, decode_headers(headers, 0, len(headers))) == (b"k", b'{"a": 1}', (("topic", b"orders"),))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"value": 7}, "no serializer is set"),
        ({"value": "text"}, "no serializer is set"),
        ({"value": b"", "key": 7}, "no serializer is set"),
        ({"value": b"", "headers": [("a", 7)]}, "header 'a'"),
        ({"value": b"", "partition": -1}, "is not a partition"),
        ({"value": b"", "timestamp": -1}, "not between"),
        ({"value": b"", "topic": "or ders"}, "other characters"),
        ({"value": b"", "topic": 7}, "is a str"),
        ({}, "value"),
    ],
)
def test_what_kafka_does_not_take_raises_and_puts_nothing(given: dict[str, Any], error: str) -> None:
    outbox = Outbox()
    connection = opened(outbox)
    topic = given.pop("topic", "orders")
    with pytest.raises(AioprodError, match=error):
        outbox.put(connection, topic, **given)
    assert rows(connection) == []


def test_a_value_that_its_serializer_does_not_take_raises() -> None:
    outbox = Outbox(value_serializer=str.encode)
    with pytest.raises(InvalidRecordError, match=r"value.*'orders'"):
        outbox.put(opened(outbox), "orders", 7)


def test_a_serializer_that_has_to_be_awaited_needs_an_asyncio_connection() -> None:
    async def serialize(value: str) -> bytes:
        raise AssertionError(value)

    outbox = Outbox(value_serializer=serialize)
    with pytest.raises(UsageError, match="Put the record by an asyncio connection"):
        outbox.put(opened(outbox), "orders", "v")


def test_a_connection_in_autocommit_is_refused_outside_of_a_transaction() -> None:
    outbox = Outbox()
    connection = opened(outbox)
    connection.isolation_level = None
    with pytest.raises(UsageError, match="commits each statement by itself"):
        outbox.put(connection, "orders", b"")
    connection.execute("BEGIN")
    outbox.put(connection, "orders", b"")
    connection.execute("ROLLBACK")
    assert rows(connection) == []


class Traced:
    """A connection as tracers wrap it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_connection_that_a_tracer_has_wrapped() -> None:
    outbox = Outbox()
    connection = opened(outbox)
    outbox.put(Traced(connection), "orders", b"v")
    assert len(rows(connection)) == 1


@pytest.mark.parametrize(
    "connection",
    [
        *(None, "postgresql://", object(), sqlite3.connect(":memory:").cursor()),
        *(create_engine("sqlite://"), create_async_engine("sqlite+aiosqlite://"), sessionmaker()),
        psycopg.Cursor.__new__(psycopg.Cursor),
        asyncpg.create_pool(),
    ],
    ids=lambda connection: type(connection).__name__,
)
def test_what_is_no_connection_is_refused(connection: object) -> None:
    with pytest.raises(UsageError, match="Give the connection of the transaction"):
        Outbox().put(connection, "orders", b"")


@pytest.mark.parametrize(
    "name", ["", "a.b.c", "a b", 'a"; DROP TABLE orders; --', "1a", "ä", "a.", ".a", "a" * 51, "a\n", None, 7]
)
def test_a_name_that_no_table_should_have_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="can't be the table of an outbox"):
        Outbox(name)


def test_a_table_of_a_schema() -> None:
    assert 'CREATE TABLE "shop"."Outbox" (' in Outbox("shop.Outbox").ddl("postgres")
    assert 'CREATE TABLE "shop"."Outbox_relay" (' in Outbox("shop.Outbox").ddl("postgres")
    assert repr(Outbox("shop.Outbox")) == "<Outbox 'shop.Outbox'>"


def test_ddl_of_an_unknown_database() -> None:
    dialect: Any = "mysql"
    with pytest.raises(ConfigError, match="'postgres' or 'sqlite'"):
        Outbox().ddl(dialect)


def test_an_illegal_topic_is_an_invalid_topic_error() -> None:
    with pytest.raises(InvalidTopicError):
        Outbox().put(sqlite3.connect(":memory:"), "a b", b"")
