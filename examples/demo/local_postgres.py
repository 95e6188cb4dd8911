"""A Postgres server of one's own, for the demo and for tests: in a temporary folder, without a port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

__all__ = ["PostgresUnavailableError", "running_postgres", "server_programs"]

DEBIAN: Final = Path("/usr/lib/postgresql")
USERS: Final = ("postgres", "nobody")
"""Users that may run the server when this process is root's: Postgres does not run as root."""
START_S: Final = 60.0
STOP_S: Final = 60.0
SETTINGS: Final = ("listen_addresses=", "fsync=off", "unix_socket_permissions=0700")
"""What is written is lost with the machine, which is good enough for a folder that is deleted at the end."""


class PostgresUnavailableError(Exception):
    """This machine can't run Postgres."""


def server_programs() -> Path:
    """The folder of `initdb` and `postgres`: of the PATH, or Debian's newest; raises PostgresUnavailableError."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(DEBIAN.glob("*/bin"), key=lambda folder: _number(folder.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresUnavailableError("There is no Postgres server here: apt-get install postgresql.")


def _number(version: str) -> float:
    return float(version) if version.replace(".", "", 1).isdigit() else 0.0


@contextmanager
def running_postgres() -> Iterator[str]:
    """A new server; yields its DSN. The server ends, and its folder is deleted, with the block."""
    programs = server_programs()
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="orders-pg-"))
    try:
        if account:
            os.chown(folder, account["user"], account["group"])
        data = folder / "data"
        # A log-in needs access to the folder, which only its owner has.
        _run([programs / "initdb", "-D", data, "-U", "orders", "-A", "trust", "--no-sync", "-E", "UTF8"], account)
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        command = [str(programs / "postgres"), "-D", str(data), "-k", str(folder), *settings]
        with (folder / "log").open("wb") as log:
            server: subprocess.Popen[bytes] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, start_new_session=True, **account
            )
        try:
            dsn = f"postgresql://orders@/postgres?host={folder}"
            _wait(server, dsn, folder / "log")
            yield dsn
        finally:
            # A fast shutdown: it does not wait for clients.
            server.send_signal(signal.SIGINT)
            try:
                server.wait(STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder)


def _account() -> dict[str, Any]:
    """The user that runs the server, as arguments of `Popen`: this one, or another one for root."""
    if os.geteuid() != 0:
        return {}
    for name in USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise PostgresUnavailableError(f"Postgres does not run as root, and there is no user {' or '.join(USERS)}.")


def _run(command: list[str | Path], account: Mapping[str, Any]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **account)
    if ended.returncode:
        raise PostgresUnavailableError(f"initdb failed: {ended.stderr.strip()}")


def _wait(server: subprocess.Popen[bytes], dsn: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise PostgresUnavailableError(f"Postgres does not start: {log.read_text()[-1000:]}") from error
            time.sleep(0.05)
        else:
            return
