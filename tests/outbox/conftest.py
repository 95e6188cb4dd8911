"""The databases of outboxes: files of SQLite, and one Postgres server for the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
def path(tmp_path: Path) -> str:
    """A new file of SQLite."""
    return str(tmp_path / "shop.db")
