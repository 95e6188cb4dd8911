"""What the tests of all tables do: relay to fake brokers, and look at what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aioprod.outbox import OutboxLag, PostgresTable, SqliteTable
from aioprod.relay import Relay
from aioprod.relay.source import Source
from aioprod.testing import FakeCluster
from tests.support.tasks import running_task

__all__ = ["GROUP", "end_cancelled", "new_relay", "relay_all", "sent", "until_empty"]

GROUP = "aioprod-eos.outbox"


def new_relay(brokers: FakeCluster, source: Source, **options: Any) -> Relay:
    given: dict[str, Any] = {"transactional_id": "outbox", "retry_backoff_ms": 1, "linger_ms": 0}
    return Relay(source, brokers.bootstrap, **(given | options))


def sent(brokers: FakeCluster) -> list[bytes | None]:
    """The values in the topic, which has one partition, as a reader with read_committed gets them."""
    return [record.value for record in brokers.records("orders", 0)]


async def until_empty(lag: Callable[[], Awaitable[OutboxLag]], task: asyncio.Task[None]) -> None:
    """Wait until no row waits; raises what has ended the relay."""
    while (await lag()).records:
        if task.done():
            await task
        await asyncio.sleep(0.005)


async def relay_all(brokers: FakeCluster, source: Any, **options: Any) -> None:
    """Run a relay until the table is empty."""
    async with running_task(new_relay(brokers, source, **options).run()) as task:
        await until_empty(source.lag, task)


async def end_cancelled(source: PostgresTable | SqliteTable) -> None:
    """Leave the block of a table, with a cancellation in the middle of that."""
    close = source._watch.close

    async def cancelled() -> None:
        await close()
        raise asyncio.CancelledError

    source._watch.close = cancelled  # type: ignore[method-assign]
    await source.__aexit__()
