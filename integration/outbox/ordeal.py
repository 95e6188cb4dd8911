"""What writers, relay, database and brokers go through: processes that are killed when so many rows are committed."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple, Self

from aioprod.testing import KafkaCluster
from integration.support.life import Life

__all__ = ["Database", "Ordeal", "WriterProcesses", "hold"]

_PROCESSES: Final = 4
_WRITERS: Final = 32
_DEAD_S: Final = 3.0
"""How long a broker is away."""


class Database(NamedTuple):
    """What an outbox is in."""

    writers: str
    """The program of its writers."""
    table: str
    """The class of aioprod that reads it."""
    address: str
    """DSN or path."""


class Ordeal(NamedTuple):
    """How much there is of what."""

    rows: int
    kills: int
    """How often the relay is killed."""
    restarts: int
    """How often something is done to the database."""
    brokers: int
    """How many brokers are killed, one after the other."""
    seed: int = 1


async def _begin(program: str, *arguments: str) -> Life:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", f"integration.outbox.{program}", *arguments)
    return Life(await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe))


class WriterProcesses:
    """Processes of writers, and what they say of themselves."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self._lives = lives
        self._said: list[tuple[int, ...]] = [(0, 0, 0, 0)] * len(lives)
        self._more = asyncio.Event()
        self._listening = [asyncio.create_task(self._listen(index)) for index in range(len(lives))]

    @classmethod
    @asynccontextmanager
    async def running(cls, database: Database, topic: str, rows: int) -> AsyncIterator[Self]:
        """All of them commit so many rows, unless the block ends before."""
        sizes = (str(_WRITERS // _PROCESSES), str(rows // _PROCESSES))
        writers = cls(
            [
                await _begin(database.writers, database.address, topic, f"p{number}", *sizes)
                for number in range(_PROCESSES)
            ]
        )
        try:
            yield writers
        finally:
            for life in writers._lives:
                await life.end()
            await asyncio.gather(*writers._listening)

    @property
    def rows(self) -> int:
        """How many are committed."""
        return self._sum(0)

    @property
    def rolled_back(self) -> int:
        """How many transactions were rolled back on purpose."""
        return self._sum(1)

    @property
    def lost(self) -> int:
        """Of how many transactions the end was not told."""
        return self._sum(2)

    @property
    def found(self) -> int:
        """How many of these were committed."""
        return self._sum(3)

    async def until(self, rows: int) -> None:
        """Wait until so many are committed."""
        while self.rows < rows and not all(task.done() for task in self._listening):
            self._more.clear()
            await self._more.wait()
            for life in self._lives:
                if life.process.returncode:
                    await life.end()  # It says why the process has failed.

    async def finish(self) -> None:
        """Wait until all have ended; none must have failed."""
        await asyncio.gather(*self._listening)
        for life in self._lives:
            await life.process.wait()
            await life.end()

    def _sum(self, column: int) -> int:
        return sum(said[column] for said in self._said)

    async def _listen(self, index: int) -> None:
        out = self._lives[index].process.stdout
        assert out is not None
        while line := await out.readline():
            self._said[index] = tuple(map(int, line.split()))
            self._more.set()
        await self._lives[index].process.wait()
        self._more.set()


class _RelayProcess:
    """The relay, which is killed and comes again."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self._arguments = arguments
        self._life: Life | None = None

    async def start(self) -> None:
        self._life = await _begin("relay", *self._arguments)

    async def kill(self) -> None:
        """Kill it; it must not have ended before."""
        assert self._life is not None
        was = self._life.process.returncode
        await self._life.end()
        assert was is None, "the relay has ended by itself"

    async def again(self) -> None:
        await self.kill()
        await self.start()


async def _nothing(_: int) -> None:
    pass


@asynccontextmanager
async def hold(
    cluster: KafkaCluster,
    topic: str,
    database: Database,
    ordeal: Ordeal,
    upset: Callable[[int], Awaitable[None]] = _nothing,
) -> AsyncIterator[WriterProcesses]:
    """All of the ordeal: in the block all rows are committed, and the relay runs. `upset` troubles the database."""
    chance = random.Random(ordeal.seed)
    relay = _RelayProcess((database.table, database.address, cluster.bootstrap_servers, topic))

    async def kill_broker(number: int) -> None:
        broker = cluster.broker_ids[number % len(cluster.broker_ids)]
        await cluster.kill(broker)
        try:
            await asyncio.sleep(_DEAD_S)
        finally:
            await cluster.restart(broker)

    async def kill_relay(_: int) -> None:
        await relay.again()

    async with AsyncExitStack() as stack:
        await relay.start()
        stack.push_async_callback(relay.kill)
        writers = await stack.enter_async_context(WriterProcesses.running(database, topic, ordeal.rows))

        async def each(count: int, action: Callable[[int], Awaitable[None]]) -> None:
            for number, share in enumerate(sorted(0.05 + 0.9 * chance.random() for _ in range(count))):
                await writers.until(int(share * ordeal.rows))
                await action(number)

        async with asyncio.TaskGroup() as faults:
            faults.create_task(each(ordeal.kills, kill_relay))
            faults.create_task(each(ordeal.restarts, upset))
            faults.create_task(each(ordeal.brokers, kill_broker))
        await writers.finish()
        yield writers
