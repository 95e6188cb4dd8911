"""Databases of one Postgres server."""

from __future__ import annotations

from uuid import uuid4

import psycopg
from psycopg import sql

__all__ = ["new_database"]


def new_database(server: str) -> str:
    """Create a database at this server, and return its DSN."""
    name = f"orders_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.replace("/postgres?", f"/{name}?")
