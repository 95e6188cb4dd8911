"""Writers of SQLite, in threads: `python -m integration.outbox.sqlite_writers PATH TOPIC NAME WRITERS ROWS`."""

from __future__ import annotations

import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from integration.outbox.plans import OUTBOX, UNDONE, Plan, Tally, plans, value_of

__all__ = ["main"]


def _write(path: str, topic: str, seed: str, tally: Tally) -> None:
    """Commit transactions until there are enough."""
    with closing(sqlite3.connect(path, timeout=120, isolation_level=None)) as connection:
        for plan in plans(seed):
            if tally.is_full:
                return
            connection.execute("BEGIN IMMEDIATE")
            _fill(connection, topic, plan)
            connection.execute("ROLLBACK" if plan.fails else "COMMIT")
            if plan.fails:
                tally.rolled_back += 1
            else:
                tally.committed(plan)


def _fill(connection: sqlite3.Connection, topic: str, plan: Plan) -> None:
    key = b"%d" % plan.key
    connection.execute("UPDATE counters SET number = number + ? WHERE key = ?", (plan.rows, plan.key))
    ((end,),) = connection.execute("SELECT number FROM counters WHERE key = ?", (plan.key,))
    first = end - plan.rows
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (plan.key, first, plan.rows, plan.token))
    for number in range(first, end):
        OUTBOX.put(connection, topic, value_of(number, plan.token), key=key)
    if plan.undoes:
        connection.execute("SAVEPOINT more")
        OUTBOX.put(connection, topic, UNDONE, key=key)
        connection.execute("ROLLBACK TO more")


def main(path: str, topic: str, name: str, writers: str, rows: str) -> None:
    """Let writers commit so many rows."""
    tally = Tally(int(rows))
    with ThreadPoolExecutor(int(writers)) as threads:
        running = [threads.submit(_write, path, topic, f"{name}-{number}", tally) for number in range(int(writers))]
    for writer in running:
        writer.result()
    tally.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
