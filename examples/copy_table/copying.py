"""A table of DuckDB into a topic and back, as Arrow data: no Python object is made for a row on either way.

A record has a row as JSON; DuckDB writes and reads it. The rows of one key are in one partition, in the order of the
table.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Final

import duckdb

from aioprod import Producer
from aioprod.reader import Reader

__all__ = ["ROWS_MAX", "create_readings", "differing_rows", "read_table", "send_table"]

ROWS_MAX: Final = 20_000
"""The most rows that are in memory at once as Arrow data."""


def quoted(name: str) -> str:
    """A name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def create_readings(database: duckdb.DuckDBPyConnection, table: str, rows: int) -> None:
    """Create a table with readings of a hundred sensors, in place of one of yours."""
    database.execute(
        f"""
        CREATE TABLE {quoted(table)} AS SELECT
            'sensor ' || (range % 100) AS sensor,
            TIMESTAMP '2026-01-01' + to_milliseconds(range * 250) AS measured_at,
            CASE WHEN range % 50 = 0 THEN NULL ELSE (20 + range % 70 / 10)::DECIMAL(5, 1) END AS celsius,
            ['ok', 'worn "out"', 'größer'][1 + range % 3] AS note,
            range AS number
        FROM range({rows:d})
        """
    )


async def send_table(
    database: duckdb.DuckDBPyConnection, table: str, key: str, bootstrap_servers: str, topic: str
) -> int:
    """Send each row of a table as a record, whose key is the text of a column; return how many were stored.

    Raises SendFailuresError for rows that were not delivered, and DuckDB's errors, of an unknown column for example.
    """
    columns = database.execute(f"DESCRIBE {quoted(table)}").fetchall()
    # The name of a whole row must be none of its columns, or that column is sent: it is longer than each of them.
    row = "r" * (1 + max(len(name) for name, *_ in columns))
    rows = database.sql(
        f"SELECT {quoted(key)}::VARCHAR AS key, to_json({row})::VARCHAR AS value FROM {quoted(table)} AS {row}"
    )
    async with Producer(bootstrap_servers, compression_type="zstd", batch_size=131_072) as producer:
        sent = await producer.send_arrow(rows.to_arrow_reader(ROWS_MAX), topic=topic)
    return sent.raise_for_failures().count


async def read_table(
    database: duckdb.DuckDBPyConnection, table: str, like: str, bootstrap_servers: str, topic: str
) -> int:
    """Create a table with the columns of another one and the rows of a topic; return how many rows it has."""
    columns = database.execute(f"DESCRIBE {quoted(like)}").fetchall()
    shape = json.dumps({name: kind for name, kind, *_ in columns})
    database.execute(f"CREATE TABLE {quoted(table)} AS FROM {quoted(like)} LIMIT 0")
    async with Reader(bootstrap_servers) as reader, aclosing(reader.read_arrow(topic)) as batches:
        async for batch in batches:
            database.register("batch", batch)
            database.execute(
                f"INSERT INTO {quoted(table)} SELECT unnest(from_json(decode(value), ?)) FROM batch", [shape]
            )
            database.unregister("batch")
    ((count,),) = database.execute(f"SELECT count(*) FROM {quoted(table)}").fetchall()
    return int(count)


def differing_rows(database: duckdb.DuckDBPyConnection, one: str, other: str) -> int:
    """How many rows are in one of two tables and not in the other one; a row that is there twice counts as two."""
    ((count,),) = database.execute(
        f"""
        SELECT count(*) FROM (
            (FROM {quoted(one)} EXCEPT ALL FROM {quoted(other)})
            UNION ALL
            (FROM {quoted(other)} EXCEPT ALL FROM {quoted(one)})
        )
        """
    ).fetchall()
    return int(count)
