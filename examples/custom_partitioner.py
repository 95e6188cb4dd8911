"""A partitioner of your own: partition 0 is for the customers who must not wait, all others share the rest.

Any object with `partition(topic, key, value, cluster) -> int` will do. It sees the serialized key and value, and the
present snapshot of the cluster. It is called for each record without a partition, so it has to be quick.

    python examples/custom_partitioner.py localhost:9092
"""

from __future__ import annotations

import asyncio
import sys

from aioprod import Producer, RecordMetadata
from aioprod.cluster import Cluster
from aioprod.routing.hashes import murmur2_partition


class PriorityPartitioner:
    """Keys that are in `first` go to partition 0; the rest go by Java's hash to one of the others."""

    def __init__(self, first: set[bytes]) -> None:
        self._first = first

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """Choose the partition of one record."""
        others = cluster.partition_count(topic) - 1
        if key in self._first or others == 0:
            return 0
        return 1 + murmur2_partition(key or b"", others)


async def order(bootstrap_servers: str, topic: str, customers: list[bytes]) -> list[RecordMetadata]:
    """Send an order of each customer and return where they are."""
    async with Producer(bootstrap_servers, partitioner=PriorityPartitioner({b"hospital"})) as producer:
        accepted = [producer.submit(topic, b"an order", key=customer) for customer in customers]
        await producer.flush()
        return [await future for future in accepted]


if __name__ == "__main__":
    names = [b"hospital", b"florist", b"bakery", b"hospital"]
    for name, metadata in zip(names, asyncio.run(order(sys.argv[1], "priority-orders", names)), strict=True):
        print(f"{name.decode():>8} -> partition {metadata.partition}, offset {metadata.offset}")
