"""Fetchers of a group member with fake brokers, with short waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aioprod.calls.session import Session
from aioprod.group.config import MemberConfig
from aioprod.group.fetcher import Fetcher
from aioprod.reader.fetching import answer_size_max
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.sessions import FAST


@asynccontextmanager
async def running_fetcher(
    brokers: FakeCluster, *, clock: Callable[[], float] | None = None, **options: Any
) -> AsyncIterator[Fetcher]:
    """A fetcher with its own session, both closed at the end of the block."""
    options = {
        "auto_offset_reset": "earliest",
        "bootstrap_servers": brokers.bootstrap,
        "fetch_max_wait_ms": 20,
        **FAST,
        **options,
    }
    config = MemberConfig.from_options(**options)
    session = Session(config, "member", frame_size_max=answer_size_max(config))
    session.clock = clock or session.clock
    fetcher = Fetcher(session, config)
    await session.start()
    try:
        yield fetcher
    finally:
        await fetcher.close()
        await session.close()


async def given(call: Awaitable[ConsumedRecord | None]) -> ConsumedRecord:
    """The record that a call of `next` gives."""
    async with asyncio.timeout(20):
        record = await call
    assert record is not None
    return record


async def take(fetcher: Fetcher, count: int) -> list[ConsumedRecord]:
    """The next records."""
    return [await given(fetcher.next()) for _ in range(count)]


async def take_all(fetcher: Fetcher, found: list[ConsumedRecord]) -> None:
    """Add to `found` all that comes before an error."""
    while True:
        found += await take(fetcher, 1)


async def until(is_true: Callable[[], object]) -> None:
    """Poll until the condition holds."""
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.001)


def places(records: list[ConsumedRecord]) -> dict[TopicPartition, list[int]]:
    """Offsets by partition, in the order of the records."""
    found: dict[TopicPartition, list[int]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record.offset)
    return found
