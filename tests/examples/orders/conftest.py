"""The databases of the orders: SQLite always, Postgres where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo.local_postgres import running_postgres
from tests.outbox.postgres_databases import NEEDS_POSTGRES, new_database


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DSN of a server for this run."""
    with running_postgres() as dsn:
        yield dsn


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=NEEDS_POSTGRES)])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new database of each kind."""
    return (
        str(tmp_path / "orders.db") if request.param == "sqlite" else new_database(request.getfixturevalue("postgres"))
    )
