"""`aioprod outbox`: what creates an outbox, and the process that brings its rows to Kafka."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen
from uuid import uuid4

import psycopg
import pytest

from aioprod.cli.__main__ import main
from aioprod.cli.outbox import probes, relaying
from aioprod.cli.outbox.command import make_parser
from aioprod.cli.progress import Progress
from aioprod.outbox import Outbox, SqliteTable, watch
from aioprod.relay import Relay
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from examples.demo.local_postgres import running_postgres
from tests.outbox.postgres_databases import NEEDS_POSTGRES, new_database
from tests.support.programs import program
from tests.support.tasks import running_task

OUTBOX = Outbox()


pytestmark = NEEDS_POSTGRES


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as dsn:
        yield dsn


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Those of the process that the tests run in stay."""
    loggers = [logging.getLogger(name) for name in ("aioprod.outbox", "aioprod.relay")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1) as cluster:
        cluster.create_topic("orders", 1)
        yield cluster


class Database(NamedTuple):
    """One with an outbox that `aioprod outbox ddl` has created."""

    given: str
    connect: Callable[[], Any]
    """A connection of the service, closed by its block."""

    def put(self, *values: bytes) -> None:
        with self.connect() as connection:
            for value in values:
                OUTBOX.put(connection, "orders", value)
            connection.commit()

    def rows(self) -> int:
        with self.connect() as connection:
            return int(connection.execute("SELECT count(*) FROM outbox").fetchone()[0])


@pytest.fixture(params=["postgres", "sqlite"])
def database(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: str, capsys: pytest.CaptureFixture[str]
) -> Database:
    assert main(["outbox", "ddl", request.param]) == 0
    ddl = capsys.readouterr().out
    if request.param == "postgres":
        dsn = new_database(postgres)
        with psycopg.connect(dsn) as connection:
            connection.execute(ddl.encode())
        return Database(dsn, lambda: psycopg.connect(dsn))
    path = str(tmp_path / "shop.db")
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(ddl)
    return Database(path, lambda: closing(sqlite3.connect(path, timeout=30)))


@pytest.fixture
def shop(tmp_path: Path) -> Database:
    """A file of SQLite."""
    path = str(tmp_path / "shop.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OUTBOX.ddl("sqlite"))
    return Database(path, lambda: closing(sqlite3.connect(path, timeout=30)))


def values(cluster: FakeClusterThread) -> list[bytes | None]:
    return [record.value for record in cluster.topics["orders"].records()]


def options(cluster: FakeClusterThread, database: str) -> list[str]:
    return ["relay", "--database", database, "-b", cluster.bootstrap, "--id", "shop-outbox", "-X", "retry.backoff.ms=1"]


def until(is_so: Callable[[], bool], *running: subprocess.Popen[bytes]) -> None:
    """Wait; fails where one of the programs has ended."""
    while not is_so():
        for one in running:
            assert one.poll() is None, one.communicate()
        time.sleep(0.01)


def end(running: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> str:
    """End it by a signal, and return what it has said."""
    running.send_signal(number)
    output, errors = running.communicate(timeout=60)
    assert (running.returncode, output) == (0, b""), errors
    return errors.decode()


def listening_at(running: subprocess.Popen[bytes]) -> str:
    """Where it answers HTTP requests."""
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith(b"Port "):
            return f"http://127.0.0.1:{line.split()[1].decode()}"
    raise AssertionError(running.wait())


def answer(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=60) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def is_running(at: str) -> bool:
    """Whether it has the table, and rows leave."""
    status, body = answer(f"{at}/ready")
    return status == 200 and json.loads(body)["state"] == "running"


# --- ddl


def test_the_statements_are_those_of_the_outbox(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["outbox", "ddl", "--table", "shop.events"]) == 0
    assert capsys.readouterr().out == Outbox("shop.events").ddl("postgres")


# --- relay


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_rows_are_relayed_until_a_signal(
    cluster: FakeClusterThread, database: Database, number: signal.Signals
) -> None:
    database.put(b"0", b"1")
    with program("outbox", *options(cluster, database.given)) as running:
        until(lambda: len(values(cluster)) == 2, running)
        database.put(b"2")
        until(lambda: len(values(cluster)) == 3, running)
        said = end(running, number)
    assert " records delivered; the rest stays in the table.\n" in said
    assert "continues behind position" in said
    database.put(b"3")
    with program("outbox", *options(cluster, database.given)) as running:
        until(lambda: len(values(cluster)) == 4 and database.rows() == 0, running)
        end(running)
    assert values(cluster) == [b"0", b"1", b"2", b"3"]


def test_a_signal_in_the_middle_of_many_rows_loses_none(cluster: FakeClusterThread, shop: Database) -> None:
    everything = [b"%d" % number for number in range(20_000)]
    shop.put(*everything)
    for share in (1, 10_000, len(everything)):
        with program("outbox", *options(cluster, shop.given), "--listen", "127.0.0.1:0") as running:
            listening_at(running)  # The one before may have sent all: a signal must not come before there is a handler.
            until(lambda: len(values(cluster)) >= share, running)  # noqa: B023 - called at once
            end(running)
    assert values(cluster) == everything


def test_one_of_two_relays_waits_and_takes_over(cluster: FakeClusterThread, database: Database) -> None:
    arguments = [*options(cluster, database.given), "--listen", "127.0.0.1:0"]
    with program("outbox", *arguments) as first:
        at_first = listening_at(first)
        until(lambda: is_running(at_first), first)
        with program("outbox", *arguments) as second:
            at_second = listening_at(second)
            assert answer(f"{at_second}/live")[0] == 200
            status, body = answer(f"{at_second}/ready")
            assert (status, json.loads(body)["state"]) == (200, "standby")
            database.put(b"0")
            until(lambda: len(values(cluster)) == 1, first, second)
            assert is_running(at_first)
            first.kill()
            database.put(b"1")
            until(lambda: len(values(cluster)) == 2, second)
            until(lambda: is_running(at_second), second)
            end(second)
    assert values(cluster) == [b"0", b"1"]


def test_a_relay_that_waits_for_another_one_ends_by_a_signal(cluster: FakeClusterThread, database: Database) -> None:
    with program("outbox", *options(cluster, database.given), "--listen", "127.0.0.1:0") as first:
        at_first = listening_at(first)
        until(lambda: is_running(at_first), first)
        with program("outbox", *options(cluster, database.given)) as second:
            assert second.stderr is not None
            assert b"Another relay has" in second.stderr.readline()
            assert "0 records delivered" in end(second)
        end(first)


def test_what_is_answered(cluster: FakeClusterThread, shop: Database) -> None:
    with program("outbox", *options(cluster, shop.given), "--listen", "127.0.0.1:0") as running:
        at = listening_at(running)
        until(lambda: is_running(at), running)
        detail = json.loads(answer(f"{at}/ready")[1])
        assert set(detail) == {"state", "failures", "waiting_rows", "oldest_age_s", "held_age_s"}
        shop.put(b"0")
        sent = 'aioprod_relay_records_total{client_id="aioprod-outbox"} 1.0'
        until(lambda: sent in answer(f"{at}/metrics")[1], running)
        assert "# TYPE aioprod_outbox_waiting_rows gauge" in answer(f"{at}/metrics")[1]
        assert answer(f"{at}/other")[0] == 404
        with pytest.raises(HTTPError, match="405"):
            urlopen(f"{at}/live", data=b"", timeout=60)
        end(running)


async def test_a_relay_from_which_no_rows_leave_is_not_ready(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka is away; the process stays."""
    monkeypatch.setattr(watch, "_EVERY_S", 0.01)
    shop.put(b"0")
    async with SqliteTable(shop.given, OUTBOX) as table:
        relay = Relay(table, "localhost:1", transactional_id="t")
        served = probes.Probes(relay, table, ("127.0.0.1", 0))
        async with running_task(relay.run()):
            while table.health().waiting_rows == 0 or relay.health().state == "new":
                await asyncio.sleep(0.002)
            status, _, body = served._answer(b"GET /ready HTTP/1.1\r\n\r\n")
            assert (status, json.loads(body)["waiting_rows"]) == (503, 1)
            assert served._answer(b"GET /live HTTP/1.1\r\n\r\n")[0] == 200
    assert served._answer(b"GET /live HTTP/1.1\r\n\r\n")[0] == 503


async def test_connections_that_ask_nothing(monkeypatch: pytest.MonkeyPatch, shop: Database) -> None:
    """They end soon, and so do those above a number, and those that send more than a request has."""
    monkeypatch.setattr(probes, "_REQUEST_S_MAX", 0.05)
    monkeypatch.setattr(probes, "_CONNECTIONS_MAX", 1)
    table = SqliteTable(shop.given, OUTBOX)
    server = probes.Probes(Relay(table, "localhost:1", transactional_id="t"), table, ("127.0.0.1", 0))
    async with server:
        assert server._server is not None
        port = server._server.sockets[0].getsockname()[1]
        for _ in range(2):
            first, first_writer = await asyncio.open_connection("127.0.0.1", port)
            above, above_writer = await asyncio.open_connection("127.0.0.1", port)
            assert await above.read() == b""
            assert await first.read() == b""
            first_writer.close()
            above_writer.close()
        monkeypatch.setattr(probes, "_REQUEST_S_MAX", 60.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes(20_000))
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


def test_metrics_without_the_extra(monkeypatch: pytest.MonkeyPatch, shop: Database) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    table = SqliteTable(shop.given, OUTBOX)
    served = probes.Probes(Relay(table, "localhost:1", transactional_id="t"), table, ("127.0.0.1", 0))
    status, _, body = served._answer(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert (status, body) == (501, b"pip install 'aioprod[prometheus]'\n")


# --- what can't be relayed


def test_what_is_no_outbox(
    cluster: FakeClusterThread, shop: Database, postgres: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing.db")
    for database, table, says in (
        (shop.given, "other", "has no outbox 'other'"),
        (new_database(postgres), "outbox", "has no outbox 'outbox'"),
        (postgres.replace("/postgres?", f"/{uuid4().hex}?"), "outbox", "does not exist"),
        (missing, "outbox", f"{missing} can't be opened as a database of SQLite"),
        ("postgresql://shop@127.0.0.1:1/shop", "outbox", "Connection refused"),
    ):
        assert main(["outbox", *options(cluster, database), "--table", table]) == 1
        errors = capfd.readouterr().err
        assert says in errors
        assert "Traceback" not in errors
    assert not Path(missing).exists()


def test_the_marker_of_another_outbox(
    cluster: FakeClusterThread, shop: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.put(b"0")
    with program("outbox", *options(cluster, shop.given)) as running:
        until(lambda: len(values(cluster)) == 1, running)
        end(running)
    other = str(tmp_path / "other.db")
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript(OUTBOX.ddl("sqlite"))
        OUTBOX.put(connection, "orders", b"1")
        connection.commit()
    assert main(["outbox", *options(cluster, other)]) == 1
    assert "belongs to another source" in capfd.readouterr().err
    assert values(cluster) == [b"0"]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://shop:sec/ret@127.0.0.1:1/shop",
        "postgresql+asyncpg://shop:secret@127.0.0.1:1/shop",
        "postgresql:/shop:secret@127.0.0.1:1/shop",
        "host=127.0.0.1 password=my secret",
    ],
)
def test_a_dsn_that_can_not_be_read_is_not_shown(
    cluster: FakeClusterThread, dsn: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["outbox", *options(cluster, dsn)])
    assert raised.value.code == 2
    errors = capfd.readouterr().err
    assert "postgresql://user@host" in errors
    assert "ret" not in errors


def test_a_port_is_no_password(cluster: FakeClusterThread, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["outbox", *options(cluster, "postgresql://127.0.0.1:1/shop")]) == 1
    assert "password" not in capfd.readouterr().err


def test_a_password_on_the_command_line_is_warned_of_and_not_shown(
    cluster: FakeClusterThread, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = "postgresql://shop:hidden@127.0.0.1:1/shop"
    assert main(["outbox", *options(cluster, dsn)]) == 1
    errors = capfd.readouterr().err
    assert "warning: --database has a password" in errors
    assert "hidden" not in errors
    monkeypatch.setenv("DATABASE", dsn)
    assert main(["outbox", *options(cluster, "env:DATABASE")]) == 1
    errors = capfd.readouterr().err
    assert "Connection refused" in errors
    assert "warning" not in errors
    assert "hidden" not in errors


def test_a_port_that_is_taken(cluster: FakeClusterThread, shop: Database, capfd: pytest.CaptureFixture[str]) -> None:
    with program("outbox", *options(cluster, shop.given), "--listen", "127.0.0.1:0") as first:
        port = listening_at(first).rpartition(":")[2]
        assert main(["outbox", *options(cluster, shop.given), "--listen", f"127.0.0.1:{port}"]) == 1
        end(first)
    assert f"Port {port} can't be listened at: another program uses it." in capfd.readouterr().err


def test_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    relay = ["relay", "--database", "shop.db", "--id", "shop"]
    for arguments in (
        [],
        ["relay"],
        ["ddl", "mysql"],
        ["ddl", "--table", "a b"],
        relay,
        [*relay, "-b", "localhost:1", "--listen", "8080"],
        [*relay, "-b", "localhost:1", "--listen", "localhost:99999"],
        ["relay", "--database", "env:NOT_SET_HERE", "--id", "shop", "-b", "localhost:1"],
    ):
        with pytest.raises(SystemExit) as raised:
            main(["outbox", *arguments])
        assert raised.value.code == 2
    errors = capsys.readouterr().err
    assert "No broker is given" in errors
    assert "'NOT_SET_HERE', which is not set" in errors
    assert make_parser().parse_args([*relay, "--listen", "[::1]:80"]).listen == ("::1", 80)


async def test_the_progress_of_a_terminal(monkeypatch: pytest.MonkeyPatch, shop: Database) -> None:
    """A line of the log takes its place."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    now = [0.0]
    progress = Progress(terminal, lambda: now[0])
    now[0] = 9.0
    table = SqliteTable(shop.given, OUTBOX)
    relay = Relay(table, "localhost:1", transactional_id="t")
    async with running_task(relaying._show(relay, table, progress)):
        while not terminal.getvalue():
            await asyncio.sleep(0)
        lines = relaying._Lines(progress)
        lines.emit(logging.makeLogRecord({"msg": "a line"}))
    shown = "0 records delivered, 0 rows in the table"
    assert terminal.getvalue() == f"\r\x1b[2K{shown}\r\x1b[2Ka line\n"
