"""What a record costs a writer's transaction, beside a plain INSERT into a table of the same columns."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks.outbox.writers import OUTBOX

__all__ = ["compare", "create_tables"]

_TURN: Final = 250
"""Transactions of one kind before those of the other."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PLAIN: Final = "INSERT INTO plain (topic, partition, key, value, headers, timestamp) VALUES (%s, %s, %s, %s, %s, %s)"
_ORDERS: Final = (
    "CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, quantity BIGINT)"
)
_VALUE: Final = b"x" * 150


def create_tables(dsn: str) -> None:
    """The orders, the outbox, and a table of the same size that nobody relays."""
    with psycopg.connect(dsn) as connection:
        connection.execute((OUTBOX.ddl("postgres") + _ORDERS).encode())
        connection.execute(
            "CREATE TABLE plain (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, put_at TIMESTAMPTZ NOT NULL "
            "DEFAULT clock_timestamp(), partition INTEGER, timestamp BIGINT, topic TEXT NOT NULL, key BYTEA, "
            "value BYTEA, headers BYTEA)"
        )


def _put(connection: Any) -> None:
    OUTBOX.put(connection, "orders", _VALUE, key=b"customer")


def _insert(connection: Any) -> None:
    connection.execute(_PLAIN, ("orders", None, b"customer", _VALUE, None, None))


def _nothing(_: Any) -> None:
    pass


_KINDS: Final[dict[str, Callable[[Any], None]]] = {"the order alone": _nothing, "INSERT": _insert, "put": _put}


def compare(dsn: str, transactions: int) -> dict[str, tuple[float, float, float]]:
    """For each kind: the time of a transaction, CPU time of the client and of the server, in microseconds.

    Medians of turns. A transaction has the INSERT of an order as well.
    """
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in _KINDS}
    with psycopg.connect(dsn) as connection:
        number = 0
        for turn in range(transactions // _TURN):
            for kind, write in _KINDS.items():
                start, cpu, server = time.perf_counter(), time.process_time(), _server_s(connection)
                for _ in range(_TURN):
                    number += 1
                    connection.execute("INSERT INTO orders VALUES (%s, 'customer', 'a book', 1)", (str(number),))
                    write(connection)
                    connection.commit()
                took = (
                    time.perf_counter() - start,
                    time.process_time() - cpu,
                    _server_s(connection) - server,
                )
                if turn:  # The first ones prepare statements.
                    found[kind].append(tuple(seconds / _TURN * 1e6 for seconds in took))  # type: ignore[arg-type]
    return {
        kind: (
            statistics.median(turn[0] for turn in turns),
            statistics.median(turn[1] for turn in turns),
            statistics.mean(turn[2] for turn in turns),
        )
        for kind, turns in found.items()
    }


def _server_s(connection: Any) -> float:
    """CPU time of the connection's process of Postgres; it is counted in hundredths of a second."""
    fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
