"""An outbox in a file of SQLite: each committed row is in Kafka once and in order."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aioprod.errors import ConfigError, InvalidRecordError, MarkerError, UsageError
from aioprod.outbox import DatabaseError, Outbox, SqliteTable, sqlite
from aioprod.testing import FakeCluster
from tests.outbox.relaying import end_cancelled, new_relay, relay_all, sent, until_empty
from tests.support.tasks import running_task

pytestmark = pytest.mark.usefixtures("short_pauses")

OUTBOX = Outbox()
HEADERS = (("a", b"1"), ("b", None))


@pytest.fixture
def connection(path: str) -> Iterator[sqlite3.Connection]:
    """The service's connection to a new outbox."""
    with closing(sqlite3.connect(path, timeout=30)) as opened:
        opened.executescript(OUTBOX.ddl("sqlite"))
        yield opened


def put(connection: sqlite3.Connection, *values: bytes) -> None:
    with connection:
        for value in values:
            OUTBOX.put(connection, "orders", value, key=b"k")


async def until_deleted(connection: sqlite3.Connection) -> None:
    while connection.execute("SELECT count(*) FROM outbox").fetchone() != (0,):
        await asyncio.sleep(0.001)


def values(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


# --- what it does


async def test_rows_of_transactions_that_commit_are_sent(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str
) -> None:
    async with SqliteTable(path, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        put(connection, b"0", b"1")
        await until_empty(source.lag, task)
        OUTBOX.put(connection, "orders", b"rolled back")
        connection.rollback()
        OUTBOX.put(
            connection, "orders", b"2", key=b"k", headers=[("a", b"1"), ("b", None)], timestamp=1_800_000_000_000
        )
        connection.commit()
        await until_empty(source.lag, task)
        await until_deleted(connection)
    assert sent(brokers) == [b"0", b"1", b"2"]
    last = brokers.records("orders", 0)[-1]
    assert (last.key, tuple(last.headers), last.timestamp) == (b"k", HEADERS, 1_800_000_000_000)


async def test_rows_that_a_statement_has_put(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    """By a trigger, for instance: text is what its bytes are, and bytes are the text of a topic."""
    with connection:
        connection.execute("INSERT INTO outbox (topic, key, value) VALUES ('orders', 'k', 'ä')")
        connection.execute("INSERT INTO outbox (topic, value) VALUES (?, 7)", (b"orders",))
    async with SqliteTable(path, OUTBOX) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == ["ä".encode(), b"7"]


async def test_a_table_that_is_emptied_again_and_again(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str
) -> None:
    for round_number in range(3):
        put(connection, *values(2 * round_number, 2 * round_number + 2))
        async with SqliteTable(path, OUTBOX) as source:
            await relay_all(brokers, source)
        await until_deleted(connection)
    assert sent(brokers) == values(0, 6)


async def test_ids_that_come_again_lose_rows_without_autoincrement(brokers: FakeCluster, path: str) -> None:
    """Numbers of a plain table come again when it is empty, so a relay that remembers the last one skips rows."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OUTBOX.ddl("sqlite").replace(" AUTOINCREMENT", ""))
        found: list[bytes] = []
        last = 0
        for number in range(3):
            put(connection, b"%d" % number)
            rows = connection.execute("SELECT id, value FROM outbox WHERE id > ?", (last,)).fetchall()
            found += [value for _, value in rows]
            last = max([last, *(row_id for row_id, _ in rows)])
            with connection:
                connection.execute("DELETE FROM outbox WHERE id <= ?", (last,))
        assert found == [b"0"]  # The naive relay has lost two rows.
    with pytest.raises(ConfigError, match="come again when rows are deleted"):
        async with SqliteTable(path, OUTBOX):
            pass


async def test_at_least_once_begins_where_the_table_says(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str
) -> None:
    for number in range(3):
        put(connection, b"%d" % number)
        async with SqliteTable(path, OUTBOX) as source:
            await relay_all(brokers, source, delivery="at-least-once")
    assert sent(brokers) == values(0, 3)


async def test_deletions_are_behind_the_marker(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "ROWS_MAX", 7)
    put(connection, *values(0, 40))
    async with SqliteTable(path, OUTBOX) as source:
        rows = await source.read(None, 30)
        assert [record.value for record, _ in rows] == values(0, 30)
        await source.delivered(rows[-1][1])
        while connection.execute("SELECT min(id) FROM outbox").fetchone() != (31,):
            await asyncio.sleep(0.001)
        assert (await source.lag()).records == 10
        rows = await source.read(rows[-1][1], 30)
        assert [record.value for record, _ in rows] == values(30, 40)


async def test_reads_are_bounded_in_bytes(connection: sqlite3.Connection, path: str) -> None:
    put(connection, *[bytes(3_000_000)] * 4)
    async with SqliteTable(path, OUTBOX) as source:
        rows = await source.read(None, 500)
        assert len(rows) == 2
        assert len(await source.read(rows[-1][1], 500)) == 2


async def test_a_row_that_is_larger_than_a_read_comes_alone(connection: sqlite3.Connection, path: str) -> None:
    put(connection, bytes(9_000_000), b"1")
    async with SqliteTable(path, OUTBOX) as source:
        (large,) = await source.read(None, 500)
        assert [record.value for record, _ in await source.read(large[1], 500)] == [b"1"]


async def test_only_what_others_commit_ends_a_wait(connection: sqlite3.Connection, path: str) -> None:
    async with SqliteTable(path, OUTBOX) as source:
        assert list(await source.read(None, 500)) == []
        waiting = asyncio.create_task(source.wait())
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        put(connection, b"0")
        await waiting


async def test_the_same_position_may_be_read_again(connection: sqlite3.Connection, path: str) -> None:
    put(connection, *values(0, 4))
    async with SqliteTable(path, OUTBOX) as source:
        first = await source.read(None, 2)
        second = await source.read(first[-1][1], 2)
        assert [record.value for record, _ in await source.read(None, 9)] == values(0, 4)
        assert [record.value for record, _ in second] == values(2, 4)
        with pytest.raises(MarkerError, match=r"`id\.token`"):
            await source.read(b"seven", 1)


# --- processes

WRITER = """
import sqlite3, sys
from aioprod.outbox import Outbox
outbox = Outbox()
connection = sqlite3.connect(sys.argv[1], timeout=60)
for number in range(int(sys.argv[3])):
    with connection:
        outbox.put(connection, "orders", f"{sys.argv[2]} {number}".encode(), key=b"k")
    try:
        with connection:
            outbox.put(connection, "orders", b"rolled back", key=b"k")
            raise KeyError
    except KeyError:
        pass
"""


async def test_writers_in_several_processes(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, f"{name}", "50"], env=environment) for name in range(3)
    ]
    async with SqliteTable(path, OUTBOX) as source:
        while any(writer.poll() is None for writer in writers):
            async with running_task(new_relay(brokers, source).run()):  # Cancelled wherever it is.
                await asyncio.sleep(0.05)
        await relay_all(brokers, source)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    found = [(value or b"").decode() for value in sent(brokers)]
    assert len(found) == 150
    for name in range(3):
        assert [text for text in found if text.startswith(f"{name} ")] == [f"{name} {number}" for number in range(50)]


async def test_one_relay_of_two_has_the_table(connection: sqlite3.Connection, path: str) -> None:
    second = SqliteTable(path, OUTBOX)
    async with SqliteTable(path, OUTBOX):
        entering = asyncio.create_task(second.__aenter__())
        done, _ = await asyncio.wait([entering], timeout=0.2)
        assert not done
    await entering
    assert second.owner
    await second.__aexit__(None, None, None)


async def test_a_second_table_in_the_same_file(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    other = Outbox("other")
    connection.executescript(other.ddl("sqlite"))
    put(connection, b"0")
    with connection:
        other.put(connection, "orders", b"1")
    async with SqliteTable(path, OUTBOX) as source:
        await relay_all(brokers, source)
        async with SqliteTable(path, other) as second:
            assert second.owner != source.owner
            with pytest.raises(MarkerError, match="belongs to another source"):
                await new_relay(brokers, second).run()
    assert sent(brokers) == [b"0"]


# --- copies, and what others do


async def deliver(brokers: FakeCluster, connection: sqlite3.Connection, path: str, *values: bytes) -> None:
    put(connection, *values)
    async with SqliteTable(path, OUTBOX) as source:
        await relay_all(brokers, source)


def restore(connection: sqlite3.Connection, copy: Path) -> None:
    """Let the file be what the copy is."""
    with closing(sqlite3.connect(copy)) as opened:
        opened.backup(connection)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


def take_copy(connection: sqlite3.Connection, copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as opened:
        connection.backup(opened)


@pytest.mark.parametrize("later", [0, 1, 2, 3])
async def test_a_file_that_was_restored_from_a_copy(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str, copy: Path, later: int
) -> None:
    """Also where rows were put since: fewer than are in Kafka, as many, or more."""
    await deliver(brokers, connection, path, b"0")
    take_copy(connection, copy)
    await deliver(brokers, connection, path, b"1", b"2")
    restore(connection, copy)
    put(connection, *[b"later"] * later)
    async with SqliteTable(path, OUTBOX) as source:
        with pytest.raises(MarkerError, match="was the database restored"):
            await new_relay(brokers, source).run()
    assert sent(brokers) == values(0, 3)


async def test_a_copy_that_lacks_nothing_continues(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str, copy: Path
) -> None:
    await deliver(brokers, connection, path, b"0")
    put(connection, b"1")
    take_copy(connection, copy)
    async with SqliteTable(copy, OUTBOX) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0", b"1"]


async def test_a_copy_from_before_the_first_relay(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str, copy: Path
) -> None:
    """It has no owner yet, and gets another one."""
    put(connection, *values(0, 3))
    take_copy(connection, copy)
    await deliver(brokers, connection, path)
    restore(connection, copy)
    async with SqliteTable(path, OUTBOX) as source:
        with pytest.raises(MarkerError, match="belongs to another source"):
            await new_relay(brokers, source).run()


async def test_tables_that_are_emptied_under_a_relay(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str
) -> None:
    async with SqliteTable(path, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        put(connection, b"0")
        await until_empty(source.lag, task)
        connection.execute("DELETE FROM outbox_relay")
        put(connection, b"1")
        with pytest.raises(MarkerError, match=r'"outbox_relay".* is gone: was the table emptied'):
            await task


async def test_rows_that_others_delete(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    put(connection, *values(0, 3))
    async with SqliteTable(path, OUTBOX) as source:
        rows = await source.read(None, 2)
    with connection:
        connection.execute("DELETE FROM outbox WHERE id = 2")
    async with SqliteTable(path, OUTBOX) as source:
        await source.delivered(rows[-1][1])
        with pytest.raises(MarkerError, match="that row is gone"):
            await source.read(rows[-1][1], 1)
        with pytest.raises(MarkerError, match="that row is gone"):
            await repeat(lambda: source.delivered(rows[-1][1]))
    assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (2,)


async def repeat(call: Callable[[], Awaitable[None]]) -> None:
    """Until it raises what a deletion in the background has raised."""
    while True:
        await call()
        await asyncio.sleep(0.001)


async def test_a_marker_that_is_gone(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    await deliver(brokers, connection, path, b"0")
    put(connection, b"1")
    async with SqliteTable(path, OUTBOX) as source:
        with pytest.raises(MarkerError, match=r"up to 1 were sent and deleted, and the marker .* is gone"):
            await new_relay(brokers, source, transactional_id="another").run()
    assert sent(brokers) == [b"0"]


async def test_a_marker_that_was_set_back(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    put(connection, *values(0, 3))
    async with SqliteTable(path, OUTBOX) as source:
        rows = await source.read(None, 3)
        await source.delivered(rows[2][1])
        await until_deleted(connection)
        with pytest.raises(MarkerError, match="set back"):
            await source.read(rows[0][1], 3)


async def test_ids_that_were_reset(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    await deliver(brokers, connection, path, *values(0, 3))
    with connection:
        connection.execute("DELETE FROM sqlite_sequence")
    put(connection, b"3")
    async with SqliteTable(path, OUTBOX) as source:
        with pytest.raises(MarkerError, match="ids end at 1"):
            await new_relay(brokers, source).run()


async def test_headers_that_put_did_not_write(brokers: FakeCluster, connection: sqlite3.Connection, path: str) -> None:
    with connection:
        connection.execute("INSERT INTO outbox (topic, value, headers) VALUES ('orders', 'v', 'json')")
    async with SqliteTable(path, OUTBOX) as source:
        with pytest.raises(InvalidRecordError, match="Row 1 of the outbox has headers that put"):
            await new_relay(brokers, source).run()


# --- what can't be opened


async def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unable to open"):
        async with SqliteTable(tmp_path / "missing.db", OUTBOX):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_no_database(path: str) -> None:
    Path(path).write_bytes(b"something else" * 1000)
    with pytest.raises(ConfigError, match="not a database"):
        async with SqliteTable(path, OUTBOX):
            pass
    assert not Path(f"{path}-outbox-relay").exists()


async def test_no_such_table(path: str, connection: sqlite3.Connection) -> None:
    with pytest.raises(ConfigError, match=r'has no outbox .other.*ddl\("sqlite"\)'):
        async with SqliteTable(path, Outbox("other")):
            pass


async def test_an_end_that_is_cancelled_once_more_releases_the_table(connection: sqlite3.Connection, path: str) -> None:
    source = SqliteTable(path, OUTBOX)
    await source.__aenter__()
    with pytest.raises(asyncio.CancelledError):
        await end_cancelled(source)
    async with SqliteTable(path, OUTBOX):
        pass


async def test_a_table_that_is_not_open(path: str) -> None:
    with pytest.raises(UsageError, match="async with"):
        _ = SqliteTable(path, OUTBOX).owner


async def test_a_database_that_fails_is_tried_again(
    brokers: FakeCluster, connection: sqlite3.Connection, path: str, tmp_path: Path
) -> None:
    put(connection, b"0")
    async with SqliteTable(path, OUTBOX) as source:
        connection.execute("ALTER TABLE outbox RENAME TO away")
        with pytest.raises(DatabaseError, match="no such table"):
            await source.read(None, 1)
        connection.execute("ALTER TABLE away RENAME TO outbox")
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0"]
