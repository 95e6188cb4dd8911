"""`make example-copy-table`: a table of DuckDB is copied to a topic by Arrow batches, read back, and compared.

    python -m examples.copy_table [--rows 200000]
    python -m examples.copy_table --file shop.duckdb --table customers --key id

Starts a Kafka broker. Without --file the table has readings of sensors. Exit status: 0 when every row came back once
and as it was, 1 when not, 2 when it could not run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Final

import duckdb

from aioprod.errors import AioprodError
from aioprod.testing import KafkaCluster
from examples.copy_table.copying import create_readings, differing_rows, read_table, send_table
from examples.demo.arguments import at_least
from examples.demo.screen import Screen

PARTITIONS: Final = 6
COPY: Final = "copy_from_kafka"


def main(arguments: Sequence[str], screen: Screen) -> int:
    """Run the example and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.copy_table")
    parser.add_argument("--rows", type=at_least(1), default=200_000, help="how many readings there are (200000)")
    parser.add_argument("--file", help="a database of DuckDB, which is only read")
    parser.add_argument("--table", default="readings", help="its table (readings)")
    parser.add_argument("--key", default="sensor", help="the column that becomes the key (sensor)")
    given = parser.parse_args(arguments)
    try:
        with duckdb.connect() as database:
            table = given.table
            if given.file is None:
                create_readings(database, table, given.rows)
            else:
                attach(database, given.file, table)
            return asyncio.run(run(database, table, given.key, screen))
    except (AioprodError, duckdb.Error) as error:
        screen.say(f"The example could not finish: {error}")
        return 2
    except KeyboardInterrupt:
        screen.say("Stopped.")
        return 2


def attach(database: duckdb.DuckDBPyConnection, file: str, table: str) -> None:
    """Make a table of a file known by its name; raises duckdb.Error."""
    path, name = file.replace("'", "''"), table.replace('"', '""')
    database.execute(f"ATTACH '{path}' AS source (READ_ONLY)")
    database.execute(f'CREATE VIEW "{name}" AS FROM source."{name}"')


async def run(database: duckdb.DuckDBPyConnection, table: str, key: str, screen: Screen) -> int:
    """Start a broker, and copy the table there and back."""
    with screen.waiting("Starting a real Kafka broker; what it needs is fetched once ...") as show:
        cluster = await KafkaCluster.start(backend="local", progress=show)
    async with cluster:
        screen.say(f"Kafka {cluster.version} serves at {cluster.bootstrap_servers}.")
        await cluster.create_topic(table, partitions=PARTITIONS)
        return await copy(database, table, key, cluster.bootstrap_servers, table, screen)


async def copy(
    database: duckdb.DuckDBPyConnection, table: str, key: str, servers: str, topic: str, screen: Screen
) -> int:
    """Copy a table to a topic and back, and compare; returns the exit status."""
    start = time.perf_counter()
    sent = await send_table(database, table, key, servers, topic)
    sending = time.perf_counter() - start
    read = await read_table(database, COPY, table, servers, topic)
    reading = time.perf_counter() - start - sending
    differing = differing_rows(database, table, COPY)
    rows = [
        ("rows sent", f"{sent:,} in {sending:.1f} s"),
        ("rows read back", f"{read:,} in {reading:.1f} s"),
        ("rows that differ", f"{differing:,}"),
    ]
    screen.table(f"copy of {table}", rows)
    if differing:
        return 1
    screen.say("Every row came back once, and as it was.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Screen()))
