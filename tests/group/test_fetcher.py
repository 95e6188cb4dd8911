from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aioprod.group.fetcher import Fetcher
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.reader.settings import ReaderConfig
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.sessions import FAST, running_session
from tests.support.stored_batches import fill

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 0)


@asynccontextmanager
async def new_fetcher(brokers: FakeCluster, **options: Any) -> AsyncIterator[Fetcher]:
    """A fetcher with a session of its own."""
    given = {
        name: options.pop(name)
        for name in ("isolation", "auto_offset_reset", "key_deserializer", "value_deserializer")
        if name in options
    }
    config = ReaderConfig.from_options(bootstrap_servers=brokers.bootstrap, fetch_max_wait_ms=20, **FAST, **options)
    async with running_session(brokers, **FAST) as session:
        fetcher = Fetcher(
            session, config, **{"isolation": "read_uncommitted", "auto_offset_reset": "earliest", **given}
        )
        yield fetcher
        await fetcher.close()


async def take(fetcher: Fetcher, count: int) -> list[ConsumedRecord]:
    """The next records."""
    async with asyncio.timeout(10):
        return [await fetcher.next() for _ in range(count)]


def places(records: list[ConsumedRecord]) -> Mapping[TopicPartition, list[int]]:
    """Offsets by partition, in the order of the records."""
    found: dict[TopicPartition, list[int]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record.offset)
    return found


async def test_partitions_of_several_topics_are_read_from_where_it_was_said() -> None:
    async with FakeCluster(2) as brokers, new_fetcher(brokers) as fetcher:
        for name in ("orders", "clicks"):
            for partition in brokers.create_topic(name, 2).partitions:
                fill(partition, 20)
        fetcher.add({ORDERS: 5, CLICKS: EARLIEST, TopicPartition("clicks", 1): LATEST})
        found = places(await take(fetcher, 35))
        assert found == {ORDERS: list(range(5, 20)), CLICKS: list(range(20))}
        assert fetcher.positions == {ORDERS: 20, CLICKS: 20, TopicPartition("clicks", 1): 20}
        fill(brokers.topics["clicks"].partitions[1], 2)
        assert places(await take(fetcher, 2)) == {TopicPartition("clicks", 1): [20, 21]}


async def test_nothing_comes_after_a_drop() -> None:
    async with FakeCluster() as brokers, new_fetcher(brokers) as fetcher:
        for name in ("orders", "clicks"):
            fill(brokers.create_topic(name).partitions[0], 20)
        fetcher.add({ORDERS: 0, CLICKS: 0})
        first = (await take(fetcher, 1))[0]
        dropped, kept = (ORDERS, CLICKS) if first.topic == "orders" else (CLICKS, ORDERS)
        fetcher.drop([dropped])
        assert places(await take(fetcher, 20)) == {kept: list(range(20))}
        fetcher.add({dropped: 1})
        assert places(await take(fetcher, 19)) == {dropped: list(range(1, 20))}
        assert fetcher.positions == {ORDERS: 20, CLICKS: 20}
