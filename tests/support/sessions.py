"""Sessions and readers with fake brokers, with short waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

from aioprod.calls.session import Session
from aioprod.config import SessionConfig
from aioprod.reader import Reader
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord

FAST: Final[dict[str, Any]] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 10, "reconnect_backoff_ms": 1}


def new_session(brokers: FakeCluster, **options: Any) -> Session:
    """A session that is not started."""
    return Session(SessionConfig.from_options(bootstrap_servers=brokers.bootstrap, **{**FAST, **options}), "reader")


@asynccontextmanager
async def running_session(
    brokers: FakeCluster, *, clock: Callable[[], float] | None = None, **options: Any
) -> AsyncIterator[Session]:
    """A started session, closed at the end of the block."""
    session = new_session(brokers, **options)
    session.clock = clock or session.clock
    await session.start()
    try:
        yield session
    finally:
        await session.close()


def new_reader(brokers: FakeCluster, **options: Any) -> Reader:
    """A reader that is not started."""
    return Reader(brokers.bootstrap, **{**FAST, **options})


def keep_loop_time(*sessions: Session, random: Random | None = None) -> None:
    """Give sessions that are not started the running loop's clock, and `random` for their backoffs."""
    for session in sessions:
        session.clock = asyncio.get_running_loop().time
        session._random = random or session._random


def offsets_of(records: list[ConsumedRecord], partition: int = 0) -> list[int]:
    """The records of one partition."""
    return [record.offset for record in records if record.partition == partition]


async def collect(records: AsyncIterator[ConsumedRecord]) -> list[ConsumedRecord]:
    """All records of an iterator."""
    return [record async for record in records]


def tasks_beside(before: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """The tasks that were not running before, without those of brokers."""
    return [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)]
