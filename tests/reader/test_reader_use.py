from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Mapping
from typing import Any

import pytest

from aioprod.errors import (
    ConfigError,
    InvalidTopicError,
    MetadataTimeoutError,
    SerializationError,
    UnknownTopicError,
    UsageError,
)
from aioprod.messages import FetchRequest
from aioprod.reader import Reader, ReaderConfig, read
from aioprod.serializers import StringDeserializer
from aioprod.testing import FakeCluster
from tests.support.sessions import FAST, collect, new_reader, tasks_beside
from tests.support.stored_batches import fill, store, stored_batch

TOPIC = "orders"


# --- deserializers


class Upper:
    """A deserializer that notes its configuration and its end."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def configure(self, config: ReaderConfig, *, is_key: bool) -> None:
        self.calls.append((config.client_id, is_key))

    def deserialize(self, topic: str, headers: Any, data: bytes) -> str:
        return f"{topic} {data.decode().upper()} {headers}"

    def close(self) -> None:
        self.calls.append("closed")


async def awaited(data: bytes) -> str:
    await asyncio.sleep(0)
    return data.decode()


@pytest.mark.parametrize(
    ("key_deserializer", "value_deserializer", "key", "value"),
    [
        (None, None, b"7", b"[7]"),
        ("str", json.loads, "7", [7]),
        (StringDeserializer, awaited, "7", "[7]"),
        (awaited, StringDeserializer(), "7", "[7]"),
        (lambda data: int(data), None, 7, b"[7]"),
        (None, "json", b"7", [7]),
    ],
)
async def test_deserializers(key_deserializer: Any, value_deserializer: Any, key: object, value: object) -> None:
    options = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
    async with FakeCluster() as brokers, new_reader(brokers, **options) as reader:
        store(brokers.create_topic(TOPIC).partitions[0], stored_batch([b"[7]", None], key=b"7"))
        assert [(record.key, record.value) async for record in reader.read(TOPIC)] == [(key, value), (key, None)]


async def test_a_deserializer_is_configured_and_closed() -> None:
    upper = Upper()
    async with FakeCluster() as brokers:
        store(brokers.create_topic(TOPIC).partitions[0], stored_batch([b"v"]))
        options: dict[str, Any] = {"value_deserializer": upper, "client_id": "me"}
        records = read(TOPIC, bootstrap_servers=brokers.bootstrap, **options)
        assert [record.value async for record in records] == ["orders V []"]
        assert upper.calls == [("me", False), "closed"]


async def test_a_record_that_can_not_be_deserialized() -> None:
    async with FakeCluster() as brokers, new_reader(brokers, value_deserializer=json.loads) as reader:
        store(brokers.create_topic(TOPIC).partitions[0], stored_batch([b"1", b"x"]))
        records = reader.read(TOPIC)
        assert (await anext(records)).value == 1
        with pytest.raises(SerializationError, match=r"^Offset 1 of partition 0: The value of a record from topic"):
            await anext(records)


# --- use


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"isolation_level": "committed"}, "must be one of read_uncommitted, read_committed, not 'committed'"),
        ({"isolation": "committed"}, "must be one of read_uncommitted, read_committed, not 'committed'"),
        ({"isolation": None}, "must be one of read_uncommitted, read_committed, not None"),
        ({"start": "earliest"}, "start is 'earliest'"),
        ({"end": {0: -1}}, "end has -1 for partition 0"),
        ({"partitions": [-1]}, "partitions names partition -1"),
        ({"bootstrap_servers": None}, "bootstrap.servers is not set"),
        ({"fetch_max_byte": 5}, "'fetch_max_byte' is not a setting"),
        ({"key_deserializer": 7}, "not a deserializer"),
        ({"security_protocol": "SASL_SSL"}, "sasl.mechanism"),
    ],
)
def test_invalid_arguments_raise_at_once(options: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read(TOPIC, **{"bootstrap_servers": "localhost:1", **options})


def test_an_invalid_topic_raises_at_once() -> None:
    with pytest.raises(InvalidTopicError):
        read("no topic", bootstrap_servers="localhost:1")


def test_a_config_object_is_accepted() -> None:
    config = ReaderConfig(bootstrap_servers=("h:1",), fetch_max_bytes=9)
    assert Reader(config=config, check_crcs=False).config == config.replace(check_crcs=False)


async def test_a_partition_that_does_not_exist() -> None:
    async with FakeCluster() as brokers, new_reader(brokers) as reader:
        brokers.create_topic(TOPIC)
        with pytest.raises(ConfigError, match="partitions names partition 1: topic 'orders' has 0 to 0"):
            await collect(reader.read(TOPIC, partitions=[1]))
        with pytest.raises(UnknownTopicError, match="Topic 'nothing' does not exist"):
            await collect(reader.read("nothing"))


async def test_an_unreachable_cluster() -> None:
    async with FakeCluster() as brokers:
        servers = brokers.bootstrap
    before = asyncio.all_tasks()
    with pytest.raises(MetadataTimeoutError, match=servers):
        await collect(read(TOPIC, bootstrap_servers=servers, default_api_timeout_ms=20, reconnect_backoff_ms=1))
    assert asyncio.all_tasks() == before


async def test_an_iterator_that_is_closed_early_leaves_no_tasks() -> None:
    async with FakeCluster(3) as brokers:
        for partition in brokers.create_topic(TOPIC, 6).partitions:
            fill(partition, 20)
        held = brokers.fault(FetchRequest, node=2, hold=True)
        before = asyncio.all_tasks()
        records = read(TOPIC, bootstrap_servers=brokers.bootstrap, max_partition_fetch_bytes=1, **FAST)
        await anext(records)
        await held.reached.wait()
        await records.aclose()
        assert not tasks_beside(before)
        held.release()
        async for _ in read(TOPIC, bootstrap_servers=brokers.bootstrap, **FAST):
            break
        gc.collect()
        async with asyncio.timeout(10):
            while tasks_beside(before):
                await asyncio.sleep(0.001)


async def test_an_iterator_that_is_cancelled_leaves_no_tasks() -> None:
    async with FakeCluster() as brokers:
        fill(brokers.create_topic(TOPIC).partitions[0], 20)
        held = brokers.fault(FetchRequest, hold=True)
        before = asyncio.all_tasks()
        reading = asyncio.ensure_future(collect(read(TOPIC, bootstrap_servers=brokers.bootstrap, **FAST)))
        await held.reached.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not tasks_beside(before)
        held.release()


async def test_a_reader_is_used_while_it_is_open() -> None:
    async with FakeCluster() as brokers:
        fill(brokers.create_topic(TOPIC).partitions[0], 20)
        reader = new_reader(brokers, max_partition_fetch_bytes=1)
        with pytest.raises(UsageError, match="This reader is not started"):
            await collect(reader.read(TOPIC))
        async with reader:
            records = reader.read(TOPIC)
            await anext(records)
        with pytest.raises(UsageError, match="This reader is closed"):
            await collect(records)
        with pytest.raises(UsageError, match="This reader is closed"):
            await reader.offsets(TOPIC, "latest")


async def test_one_reader_reads_several_topics_at_once() -> None:
    async with FakeCluster(2) as brokers, new_reader(brokers, max_partition_fetch_bytes=1) as reader:
        for name in ("a", "b"):
            for partition in brokers.create_topic(name, 3).partitions:
                fill(partition, 10)
        found = await asyncio.gather(*(collect(reader.read(name)) for name in ("a", "b", "a")))
        assert [len(records) for records in found] == [30, 30, 30]
