"""Writers of Postgres: `python -m integration.outbox.postgres_writers DSN TOPIC NAME WRITERS ROWS`."""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from typing import Final

import asyncpg

from integration.outbox.plans import OUTBOX, UNDONE, Plan, Tally, plans, value_of

__all__ = ["main"]

_AWAY: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What asyncpg may raise where the server goes or is away: nearly everything."""
_LOST_MAX: Final = 500
"""More transactions than that don't get lost by restarts."""
_EARLY_S: Final = 0.02


class _RolledBackError(Exception):
    pass


class _Writer:
    def __init__(self, dsn: str, topic: str, tally: Tally) -> None:
        self._dsn = dsn
        self._topic = topic
        self._tally = tally
        self._connection: asyncpg.Connection | None = None

    async def run(self, seed: str) -> None:
        """Commit transactions until there are enough."""
        for plan in plans(seed):
            if self._tally.is_full:
                break
            await self._run(plan)
        if self._connection is not None:
            await self._connection.close()

    async def _run(self, plan: Plan) -> None:
        connection = await self._connected()
        try:
            await self._transact(connection, plan)
        except _RolledBackError:
            self._tally.rolled_back += 1
        except _AWAY:
            connection.terminate()
            self._connection = None
            self._tally.lost += 1
            if self._tally.lost > _LOST_MAX:
                raise
            if await self._is_committed(plan):
                self._tally.found += 1
                self._tally.committed(plan)
        else:
            self._tally.committed(plan)

    async def _transact(self, connection: asyncpg.Connection, plan: Plan) -> None:
        async with connection.transaction():
            if plan.is_early:
                await connection.execute("INSERT INTO attempts VALUES ($1)", plan.token)
                await asyncio.sleep(random.random() * _EARLY_S)
            end = await connection.fetchval(
                "UPDATE counters SET number = number + $2 WHERE key = $1 RETURNING number", plan.key, plan.rows
            )
            first = end - plan.rows
            await connection.execute(
                "INSERT INTO entries VALUES ($1, $2, $3, $4)", plan.key, first, plan.rows, plan.token
            )
            for number in range(first, end):
                await self._put(connection, plan, value_of(number, plan.token))
            if plan.undoes:
                with suppress(_RolledBackError):
                    async with connection.transaction():
                        await self._put(connection, plan, UNDONE)
                        raise _RolledBackError
            if plan.fails:
                raise _RolledBackError

    async def _put(self, connection: asyncpg.Connection, plan: Plan, value: bytes) -> None:
        await OUTBOX.put(connection, self._topic, value, key=b"%d" % plan.key)

    async def _is_committed(self, plan: Plan) -> bool:
        """Whether a transaction whose end is not known was committed."""
        while True:
            connection = await self._connected()
            try:
                return bool(
                    await connection.fetchval("SELECT EXISTS (SELECT FROM entries WHERE token = $1)", plan.token)
                )
            except _AWAY:
                connection.terminate()
                self._connection = None

    async def _connected(self) -> asyncpg.Connection:
        while self._connection is None:
            try:
                self._connection = await asyncpg.connect(self._dsn)
            except _AWAY:
                await asyncio.sleep(0.1)
        return self._connection


async def main(dsn: str, topic: str, name: str, writers: str, rows: str) -> None:
    """Let writers commit so many rows."""
    tally = Tally(int(rows))
    await asyncio.gather(*(_Writer(dsn, topic, tally).run(f"{name}-{number}") for number in range(int(writers))))
    tally.print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
