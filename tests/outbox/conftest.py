"""The databases of outboxes: files of SQLite, and one Postgres server for the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aioprod.net.protocol.backoff import Backoff
from aioprod.outbox import deletions, postgres_session
from aioprod.relay import loop as relay_module
from aioprod.testing import FakeCluster
from examples.demo.local_postgres import running_postgres
from tests.outbox.postgres_databases import new_database


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DSN of a server for this run."""
    with running_postgres() as dsn:
        yield dsn


@pytest.fixture
def dsn(postgres: str) -> str:
    """A new database of it."""
    return new_database(postgres)


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("orders", 1)
        yield cluster


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relays and tables begin again, and delete, at once."""
    monkeypatch.setattr(relay_module, "_BACKOFF", Backoff(0.001, 0.01))
    monkeypatch.setattr(relay_module, "_FENCED_PAUSE_S", 0.001)
    monkeypatch.setattr(deletions, "_EVERY_S", 0.001)
    monkeypatch.setattr(postgres_session, "_AGAIN_S", 0.01)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A new file of SQLite."""
    return str(tmp_path / "shop.db")
