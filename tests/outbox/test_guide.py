"""What the guide says about Postgres: its statements, and its program."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from aioprod.errors import MarkerError
from aioprod.outbox import Outbox, PostgresTable, deletions
from aioprod.testing import FakeCluster
from aioprod.testing.fixtures import FakeClusterThread
from tests.outbox.postgres_databases import NEEDS_POSTGRES
from tests.outbox.relaying import new_relay, relay_all, sent
from tests.support.snippets import DOCS, ROOT, snippets

pytestmark = NEEDS_POSTGRES

PAGE = DOCS / "guides" / "outbox.md"
STATEMENTS: list[str] = re.findall(r"^ *```sql\n(.*?)^ *```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
OUTBOX = Outbox("outbox")
DDL = OUTBOX.ddl("postgres")


def block(begin: str) -> bytes:
    """The SQL of the page that begins with this."""
    (found,) = [text for text in STATEMENTS if text.strip().startswith(begin)]
    return found.encode()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "_EVERY_S", 0.001)


def put(dsn: str, *values: bytes) -> None:
    with psycopg.connect(dsn) as connection:
        for value in values:
            OUTBOX.put(connection, "orders", value, key=b"k")


def execute(dsn: str, *statements: bytes) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_rights_are_enough_for_service_and_relay(brokers: FakeCluster, dsn: str) -> None:
    mark = uuid4().hex
    grants = block("GRANT INSERT").decode().replace("shop", f"shop_{mark}")
    execute(dsn, DDL.encode())
    for role in re.findall(rf"TO (\w+{mark}\w*);", grants):
        with psycopg.connect(dsn, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchall():
                connection.execute(f"CREATE ROLE {role} LOGIN".encode())
    execute(dsn, grants.encode())
    await asyncio.to_thread(put, dsn.replace("orders@", f"shop_{mark}@"), b"0")
    async with PostgresTable(dsn.replace("orders@", f"shop_{mark}_relay@"), OUTBOX) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0"]


async def test_a_table_in_partitions(brokers: FakeCluster, dsn: str) -> None:
    first, second = DDL.split(";\n")[:2]
    assert first.startswith('CREATE TABLE "outbox"')
    execute(dsn, block("CREATE TABLE outbox ("), second.encode())
    await asyncio.to_thread(put, dsn, b"0", b"1")
    async with PostgresTable(dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT FROM outbox").fetchall() == []
    execute(dsn, *re.findall(rb"DROP TABLE \w+", PAGE.read_bytes()))
    await asyncio.to_thread(put, dsn, b"2")
    async with PostgresTable(dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0", b"1", b"2"]


def test_columns_of_a_table_in_partitions_are_those_of_the_others() -> None:
    def columns(text: str) -> list[str]:
        lines = re.findall(r"^    [a-z].+$", text, re.MULTILINE)
        return [re.sub(r" PRIMARY KEY|,? *(--.*)?$", "", line) for line in lines]

    found = columns(block("CREATE TABLE outbox (").decode())
    assert len(found) == 10
    assert found == columns(DDL.split(";\n")[0])


async def test_the_vacuum_is_set(dsn: str) -> None:
    execute(dsn, DDL.encode(), block("ALTER TABLE outbox SET"))
    with psycopg.connect(dsn) as connection:
        ((options,),) = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'outbox'::regclass").fetchall()
    assert "autovacuum_vacuum_threshold=10000" in options


async def test_a_relay_that_begins_anew_sends_what_is_missing(fake_cluster: FakeClusterThread, dsn: str) -> None:
    """After a restore: rows 1 and 2 are in Kafka, the copy has 1, and two others were put since."""
    fake_cluster.create_topic("orders", 1)
    brokers: Any = fake_cluster
    execute(dsn, DDL.encode())
    await asyncio.to_thread(put, dsn, b"1", b"2")
    async with PostgresTable(dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    restored = b"TRUNCATE outbox; UPDATE outbox_relay SET delivered = NULL; ALTER TABLE outbox ALTER id RESTART WITH 41"
    execute(dsn, restored)
    await asyncio.to_thread(put, dsn, b"1", b"3", b"4")
    async with PostgresTable(dsn, OUTBOX) as source:
        with pytest.raises(MarkerError):
            await new_relay(brokers, source).run()
    execute(dsn, block("SELECT id, put_at"), block("DELETE FROM outbox"), block("UPDATE outbox_relay"))
    (command,) = re.findall(r"^ *aioprod (groups delete .*)$", PAGE.read_text(), re.MULTILINE)
    words = command.replace(".orders", ".outbox").replace("localhost:9092", fake_cluster.bootstrap).split()
    await asyncio.to_thread(subprocess.run, [sys.executable, "-m", "aioprod", *words], check=True, cwd=ROOT)
    async with PostgresTable(dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    assert [record.value for record in fake_cluster.records("orders", 0)] == [b"1", b"2", b"3", b"4"]


async def test_its_relay_is_a_program(fake_cluster: FakeClusterThread, dsn: str, tmp_path: Path) -> None:
    fake_cluster.create_topic("orders", 1)
    execute(dsn, DDL.encode())
    (program,) = [found for found in snippets(PAGE) if found.title == "relay.py"]
    (tmp_path / program.title).write_text(program.text.replace("localhost:9092", fake_cluster.bootstrap))
    environment = {"DATABASE": dsn, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, program.title], cwd=tmp_path, env=environment)
    try:
        await asyncio.to_thread(put, dsn, b"0")
        while not fake_cluster.records("orders", 0):
            assert process.poll() is None
            await asyncio.sleep(0.01)
    finally:
        process.terminate()
        process.wait()
