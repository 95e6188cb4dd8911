"""A consumer group's committed offsets, read by confluent-kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import confluent_kafka

from aioprod import TopicPartition
from aioprod.testing import KafkaCluster

__all__ = ["group_offset", "group_offsets"]


async def group_offset(cluster: KafkaCluster, group: str, topic: str, partition: int = 0) -> int | None:
    """The offset that a group has committed, None for none."""
    place = TopicPartition(topic, partition)
    return (await asyncio.to_thread(group_offsets, cluster.bootstrap_servers, group, [place])).get(place)


def group_offsets(
    bootstrap_servers: str, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offsets that a group has committed, without partitions that have none."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    )
    try:
        wanted = [confluent_kafka.TopicPartition(*partition) for partition in partitions]
        found = consumer.committed(wanted, timeout=30)
        return {TopicPartition(place.topic, place.partition): place.offset for place in found if place.offset >= 0}
    finally:
        consumer.close()
