"""What `--database` says: Postgres or SQLite. No message shows it, as it may have a password."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final, TypeAlias

from aioprod.config._secrets import is_elsewhere, secret_of
from aioprod.errors import ConfigError
from aioprod.outbox import Outbox, SqliteTable

if TYPE_CHECKING:
    from aioprod.outbox import PostgresTable

__all__ = ["Table", "database_of"]

Table: TypeAlias = "PostgresTable | SqliteTable"

_POSTGRES: Final = re.compile(r"postgres(ql)?://|\w+\s*=")
_URL: Final = re.compile(r"[A-Za-z][\w+.-]*:/")
_PASSWORD: Final = re.compile(r"://[^/@]*:[^@]+@|\bpassword\s*=", re.IGNORECASE)


def database_of(given: str, outbox: Outbox) -> Table:
    """The table of an outbox there. Warns on stderr of a password on the command line; raises ConfigError."""
    text = secret_of("--database", given)
    if not is_elsewhere(given) and _PASSWORD.search(text):
        sys.stderr.write(
            "warning: --database has a password, which others on this machine can see in the list of processes: name a "
            "place instead, such as --database env:DATABASE or file:PATH.\n"
        )
    if _POSTGRES.match(text):
        from aioprod.outbox import PostgresTable  # It needs psycopg.

        return PostgresTable(text, outbox)
    if _URL.match(text):
        raise ConfigError(
            "--database has a URL that is none of Postgres.",
            hint="Write it as postgresql://user@host/name, without the name of a driver; or give the path of a file of "
            "SQLite.",
        )
    return SqliteTable(text, outbox)
