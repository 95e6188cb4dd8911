"""The databases of the orders: SQLite always, Postgres where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.orders.local_postgres import PostgresUnavailableError, running_postgres
from tests.examples.orders.postgres_databases import new_database


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DSN of a server for this run."""
    running = running_postgres()
    try:
        dsn = running.__enter__()
    except PostgresUnavailableError as error:
        pytest.skip(str(error))
    try:
        yield dsn
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(params=["sqlite", "postgres"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new database of each kind."""
    return (
        str(tmp_path / "orders.db") if request.param == "sqlite" else new_database(request.getfixturevalue("postgres"))
    )
