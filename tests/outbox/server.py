"""Servers of Postgres that a test stops, kills and copies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.demo import local_postgres

__all__ = ["PostgresServer", "server_folders"]

SETTINGS = (*local_postgres.SETTINGS, "max_prepared_transactions=5", "hot_standby=on")


class PostgresServer:
    """One in a folder of its own, which has its socket, too."""

    def __init__(self, folder: Path, *, settings: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self._settings = (*SETTINGS, *settings)
        self.dsn = f"postgresql://orders@/postgres?host={folder}"
        self.process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        self._program("initdb", "-D", self.folder / "data", "-U", "orders", "-A", "trust", "--no-sync", "-E", "UTF8")

    def copy(self, folder: Path) -> PostgresServer:
        """A replica of this server, in a folder that is there."""
        replica = PostgresServer(folder)
        replica._settings = self._settings
        arguments = ("-D", folder / "data", "-h", self.folder, "-U", "orders", "-R", "-X", "stream", "--no-sync")
        self._program("pg_basebackup", *arguments, "-c", "fast")
        return replica

    def dump(self, dsn: str) -> None:
        """Dump the database of this server, and restore that into an empty one, of any server."""
        programs = local_postgres.server_programs()
        packed = subprocess.run([programs / "pg_dump", "-Fc", "-d", self.dsn], check=True, capture_output=True).stdout
        subprocess.run([programs / "pg_restore", "-d", dsn], input=packed, check=True)

    def start(self) -> None:
        program = local_postgres.server_programs() / "postgres"
        words = [word for setting in self._settings for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(program), "-D", str(self.folder / "data"), "-k", str(self.folder), *words],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                start_new_session=True,
                **local_postgres._account(),
            )
        local_postgres._wait(self.process, self.dsn, self.folder / "log")

    def stop(self, *, crashes: bool = False) -> None:
        """End it, with what clients do; a crash leaves what was committed in the log only."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if crashes else signal.SIGINT)
            self.process.wait(60)
            self.process = None

    def _program(self, name: str, *arguments: str | Path) -> None:
        local_postgres._run([local_postgres.server_programs() / name, *arguments], local_postgres._account())


@contextmanager
def server_folders(count: int = 1) -> Iterator[list[Path]]:
    """Folders for so many servers, which the user that runs them owns."""
    account = local_postgres._account()
    folders = [Path(tempfile.mkdtemp(prefix="outbox-pg-")) for _ in range(count)]
    try:
        for folder in folders:
            if account:
                os.chown(folder, account["user"], account["group"])
        yield folders
    finally:
        for folder in folders:
            shutil.rmtree(folder)
