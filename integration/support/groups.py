"""A consumer group's offsets, as confluent-kafka sees them."""

from __future__ import annotations

import asyncio

from confluent_kafka import Consumer, TopicPartition

from aioprod.testing import KafkaCluster

__all__ = ["group_offset"]


async def group_offset(cluster: KafkaCluster, group: str, topic: str, partition: int = 0) -> int | None:
    """The offset that a group has committed, None for none."""
    return await asyncio.to_thread(_offset, cluster.bootstrap_servers, group, topic, partition)


def _offset(bootstrap_servers: str, group: str, topic: str, partition: int) -> int | None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=30)
        return found.offset if found.offset >= 0 else None
    finally:
        consumer.close()
