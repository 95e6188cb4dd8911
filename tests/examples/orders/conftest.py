"""The databases of the orders: SQLite always, Postgres where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo.local_postgres import PostgresUnavailableError, running_postgres, server_programs
from tests.outbox.postgres_databases import new_database


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DSN of a server for this run."""
    with running_postgres() as dsn:
        yield dsn


def missing_for_postgres() -> str | None:
    """What this machine lacks to run it, None if nothing."""
    try:
        server_programs()
    except PostgresUnavailableError as error:
        return str(error)
    return None


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs(missing=missing_for_postgres))])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new database of each kind."""
    return (
        str(tmp_path / "orders.db") if request.param == "sqlite" else new_database(request.getfixturevalue("postgres"))
    )
