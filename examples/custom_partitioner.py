"""A partitioner of your own: priority customers have partition 0, all other customers share the other partitions.

A partitioner is any object with `partition(topic, key, value, cluster) -> int`. It gets the serialized key and value,
and a snapshot of the cluster's metadata. It is called for each record without a partition, so it has to be fast.

    python examples/custom_partitioner.py localhost:9092
"""

from __future__ import annotations

import asyncio
import sys

from aioprod import Producer, RecordMetadata
from aioprod.cluster import Cluster
from aioprod.routing.hashes import murmur2_partition


class PriorityPartitioner:
    """Keys in `first` go to partition 0; all other keys go to one of the other partitions, by Java's hash."""

    def __init__(self, first: set[bytes]) -> None:
        self._first = first

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """Choose the partition of one record."""
        others = cluster.partition_count(topic) - 1
        if key in self._first or others == 0:
            return 0
        return 1 + murmur2_partition(key or b"", others)


async def order(bootstrap_servers: str, topic: str, customers: list[bytes]) -> list[RecordMetadata]:
    """Send an order of each customer and return where they are stored."""
    async with Producer(bootstrap_servers, partitioner=PriorityPartitioner({b"hospital"})) as producer:
        accepted = [producer.submit(topic, b"an order", key=customer) for customer in customers]
        await producer.flush()
        return [await future for future in accepted]


if __name__ == "__main__":
    names = [b"hospital", b"florist", b"bakery", b"hospital"]
    for name, metadata in zip(names, asyncio.run(order(sys.argv[1], "priority-orders", names)), strict=True):
        print(f"{name.decode():>8} -> partition {metadata.partition}, offset {metadata.offset}")
