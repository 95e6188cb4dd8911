"""A table that is copied by Arrow batches comes back as it was, and a difference is found."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from aioprod import Producer
from aioprod.errors import ErrorCode, SendFailuresError
from aioprod.messages import ProduceRequest
from aioprod.testing.fixtures import FakeClusterThread
from examples.copy_table import __main__ as example
from examples.copy_table import copying
from examples.demo.screen import Screen

ROWS = 2500


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        copying.create_readings(connection, "readings", ROWS)
        yield connection


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def screen(out: io.StringIO) -> Screen:
    return Screen(Console(file=out, width=200, highlight=False, markup=False))


async def test_a_copy_is_equal(
    fake_cluster: FakeClusterThread, database: duckdb.DuckDBPyConnection, screen: Screen, out: io.StringIO
) -> None:
    fake_cluster.create_topic("t", partitions=3)
    assert await example.copy(database, "readings", "sensor", fake_cluster.bootstrap, "t", screen) == 0
    assert "Every row came back once" in out.getvalue()
    records = [one for index in range(3) for one in fake_cluster.records("t", index)]
    assert len(records) == ROWS
    rows = [json.loads(bytes(one.value or b"")) for one in records]
    assert [row["sensor"].encode() for row in rows] == [bytes(one.key or b"") for one in records]
    assert sorted(row["number"] for row in rows) == list(range(ROWS))
    last: dict[str, int] = {}
    for row in rows:
        assert row["number"] > last.get(row["sensor"], -1), "the rows of a key are in the order of the table"
        last[row["sensor"]] = row["number"]


async def test_the_rows_are_sent_in_several_batches(
    fake_cluster: FakeClusterThread, database: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "ROWS_MAX", 300)
    fake_cluster.create_topic("t", partitions=3)
    assert await copying.send_table(database, "readings", "sensor", fake_cluster.bootstrap, "t") == ROWS
    assert await copying.read_table(database, "back", "readings", fake_cluster.bootstrap, "t") == ROWS
    assert copying.differing_rows(database, "readings", "back") == 0


@pytest.mark.parametrize(
    ("extra", "differing"),
    [(b'{"number": 7}', 1), (b'{"sensor": "sensor 0", "number": -1, "note": null}', 1)],
)
async def test_a_record_too_many_is_found(
    fake_cluster: FakeClusterThread,
    database: duckdb.DuckDBPyConnection,
    screen: Screen,
    out: io.StringIO,
    extra: bytes,
    differing: int,
) -> None:
    async with Producer(fake_cluster.bootstrap) as producer:
        await producer.send("t", extra)
    assert await example.copy(database, "readings", "sensor", fake_cluster.bootstrap, "t", screen) == 1
    assert f"rows that differ │ {differing}".split() == out.getvalue().splitlines()[-2].strip("│ ").split()


def test_rows_that_are_there_twice_differ(database: duckdb.DuckDBPyConnection) -> None:
    database.execute("CREATE TABLE twice AS FROM readings UNION ALL FROM readings")
    assert copying.differing_rows(database, "readings", "twice") == ROWS
    assert copying.differing_rows(database, "twice", "readings") == ROWS
    assert copying.differing_rows(database, "twice", "twice") == 0


async def test_types_and_names_of_all_kinds(
    fake_cluster: FakeClusterThread, database: duckdb.DuckDBPyConnection
) -> None:
    database.execute(
        """
        CREATE TABLE "odd ""name" AS SELECT
            range::UTINYINT AS "a ""b", range / 3::DOUBLE AS d, DATE '2026-02-03' + range::INTEGER AS day,
            range % 2 = 0 AS even, [range, NULL] AS list, {'x': range, 'y': 'z'} AS "struct", uuid() AS id,
            NULL::INTEGER AS nothing, (range::HUGEINT << 80) AS huge, INTERVAL 3 DAY AS span
        FROM range(50)
        """
    )
    await copying.send_table(database, 'odd "name', 'a "b', fake_cluster.bootstrap, "t")
    assert await copying.read_table(database, "back", 'odd "name', fake_cluster.bootstrap, "t") == 50
    assert copying.differing_rows(database, 'odd "name', "back") == 0


@pytest.mark.parametrize("column", ["source", "r", "rr", "RRR", "value"])
async def test_no_column_is_taken_for_the_row(
    fake_cluster: FakeClusterThread, database: duckdb.DuckDBPyConnection, column: str
) -> None:
    database.execute(f"CREATE TABLE named AS SELECT range AS id, 'x' AS {column} FROM range(5)")
    await copying.send_table(database, "named", "id", fake_cluster.bootstrap, "t")
    assert await copying.read_table(database, "back", "named", fake_cluster.bootstrap, "t") == 5
    assert copying.differing_rows(database, "named", "back") == 0


async def test_a_row_that_is_not_delivered_is_an_error(
    fake_cluster: FakeClusterThread, database: duckdb.DuckDBPyConnection
) -> None:
    fake_cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
    with pytest.raises(SendFailuresError):
        await copying.send_table(database, "readings", "sensor", fake_cluster.bootstrap, "t")


def test_a_table_of_a_file(tmp_path: Path, screen: Screen, out: io.StringIO) -> None:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(path) as file:
        copying.create_readings(file, "readings", 3)
    with duckdb.connect() as database:
        example.attach(database, str(path), "readings")
        assert len(database.execute("FROM readings").fetchall()) == 3
    assert example.main(["--file", str(tmp_path / "absent.duckdb")], screen) == 2
    assert "could not finish" in out.getvalue()
