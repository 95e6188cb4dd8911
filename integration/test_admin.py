"""The administrator against a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.errors import BrokerError, ErrorCode, UnknownTopicError
from aioprod.testing import KafkaCluster


async def test_the_life_of_a_topic(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        await admin.create_topic(unused_topic, partitions=3, config={"retention_ms": 3600_000, "preallocate": False})
        partitions = await admin.partitions(unused_topic)
        assert [info.partition for info in partitions] == [0, 1, 2]
        assert all(info.leader is not None for info in partitions)
        assert unused_topic in await admin.topics()
        with pytest.raises(BrokerError, match=r"could not be created: .*already exists") as failure:
            await admin.create_topic(unused_topic)
        assert failure.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        now_ms = int(time.time() * 1000)
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            await producer.send_many(unused_topic, [b"v"] * 10, partition=1, timestamps=now_ms)
        assert await admin.offsets(unused_topic, "latest") == {
            TopicPartition(unused_topic, index): 10 if index == 1 else 0 for index in range(3)
        }
        assert set((await admin.offsets(unused_topic, "earliest")).values()) == {0}
        assert set((await admin.offsets(unused_topic, now_ms)).values()) == {0}
        await admin.delete_topic(unused_topic)
        with pytest.raises(UnknownTopicError):
            await admin.delete_topic(unused_topic)
        with pytest.raises(UnknownTopicError):
            await admin.partitions(unused_topic)


async def test_what_brokers_refuse(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    async with Admin(kafka_cluster.bootstrap_servers) as admin:
        refused: list[tuple[ErrorCode, Callable[[], object]]] = [
            (ErrorCode.INVALID_REPLICATION_FACTOR, lambda: admin.create_topic(unused_topic, replication_factor=9)),
            (ErrorCode.INVALID_PARTITIONS, lambda: admin.create_topic(unused_topic, partitions=0)),
            (ErrorCode.INVALID_CONFIG, lambda: admin.create_topic(unused_topic, config={"retention.ms": "long"})),
        ]
        for code, call in refused:
            with pytest.raises(BrokerError, match=f"Topic '{unused_topic}' could not be created: ") as failure:
                await call()  # type: ignore[misc]
            assert failure.value.code == code
