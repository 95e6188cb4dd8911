"""The DSN of a database. Where it is mistyped, any part of it may be one of the password, so no message shows it."""

from __future__ import annotations

from typing import Any, Final

from aioprod.errors import ConfigError, UsageError

try:
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise UsageError(
        "An outbox in Postgres needs psycopg, which is not installed.",
        hint='pip install "aioprod[outbox-postgres]"',
    ) from missing

__all__ = ["settings_of"]

_HINT: Final = (
    "Write it as postgresql://user@host:5432/database, with %40 for an @ in a password, %2F for a / and %25 for a %; "
    "or as host=... dbname=... user=..., with quotes around spaces."
)


def settings_of(dsn: str) -> dict[str, Any]:
    """What a DSN says, by the names of libpq; raises ConfigError."""
    try:
        found = conninfo_to_dict(dsn)
    except Error:
        found = None
    if found is None or not _is_plausible(found):
        raise ConfigError("The DSN of the outbox's database can't be read.", hint=_HINT)
    return found


def _is_plausible(found: dict[str, Any]) -> bool:
    """Whether no part of a password is where the server or the database should be, which errors of libpq name."""
    ports = str(found.get("port") or "").split(",")
    hosts = str(found.get("host") or "").split(",")
    database = str(found.get("dbname") or "")
    return (
        all(not port or port.isdecimal() for port in ports)
        and not any("@" in host[1:] for host in hosts)  # One that begins with it is an abstract socket.
        and not ("@" in database and "/" in database)
    )
