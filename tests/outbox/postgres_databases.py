"""Databases of one Postgres server."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from examples.demo.local_postgres import PostgresUnavailableError, server_programs

__all__ = ["NEEDS_POSTGRES", "new_database"]


def _missing() -> str | None:
    """What this machine lacks to run it, None if nothing."""
    try:
        server_programs()
    except PostgresUnavailableError as error:
        return str(error)
    return None


NEEDS_POSTGRES = pytest.mark.needs(missing=_missing)
"""Leaves a test, or one of its parameters, out where there is no server."""


def new_database(server: str) -> str:
    """Create a database at this server, and return its DSN."""
    name = f"orders_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.replace("/postgres?", f"/{name}?")
