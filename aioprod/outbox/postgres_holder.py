"""Which transaction holds a relay back: the oldest one that runs, of any database of the server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from aioprod._short_reprs import printable

if TYPE_CHECKING:
    import psycopg

__all__ = ["Hold", "oldest_transaction"]

_LOGGED_EVERY_S: Final = 10.0
_NAMED_AFTER_S: Final = 1.0
"""All rows wait for short transactions: these need no name."""

_OLDEST: Final = """
SELECT * FROM (
    SELECT age(backend_xid) AS age, 'process ' || pid, datname, usename, application_name, extract(epoch FROM
        clock_timestamp() - xact_start)::float8
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL
    UNION ALL
    SELECT age(transaction), 'prepared as ' || quote_literal(gid), database, owner, '', extract(epoch FROM
        clock_timestamp() - prepared)::float8
    FROM pg_prepared_xacts
) AS running ORDER BY age DESC LIMIT 1
"""


class Hold:
    """Since when rows have waited for the end of a transaction."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._logged_at = 0.0

    @property
    def age_s(self) -> float:
        """How long that is, 0.0 where they don't wait."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    @property
    def is_long(self) -> bool:
        """Whether the transaction is worth a name."""
        return self.age_s >= _NAMED_AFTER_S

    def end(self) -> None:
        """They wait no more."""
        self._since = None

    def continues(self) -> bool:
        """They wait, or still wait; returns whether it is time to log that."""
        now = time.monotonic()
        if self._since is None:
            self._since = self._logged_at = now
        if now - self._logged_at < _LOGGED_EVERY_S:
            return False
        self._logged_at = now
        return True


async def oldest_transaction(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> str:
    """It in words; raises psycopg.Error."""
    for _, what, database, user, application, seconds in await (await connection.execute(_OLDEST)).fetchall():
        name = f" ({printable(application, 60)})" if application else ""
        since = "" if seconds is None else f", for {seconds:.0f} s"
        return (
            f"a transaction of {printable(str(user), 60)} in the database {printable(str(database), 60)}{since}: "
            f"{printable(what, 120)}{name}"
        )
    return "a transaction that this role can't see: GRANT pg_read_all_stats to it"
