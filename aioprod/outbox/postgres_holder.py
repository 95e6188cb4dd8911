"""Which transaction holds a relay back: the oldest one that runs, of any database of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aioprod._short_reprs import printable

if TYPE_CHECKING:
    import psycopg

__all__ = ["oldest_transaction"]

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
