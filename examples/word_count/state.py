"""The counts of one partition, as the topic of the counts has them.

Partition p of the counts has those of partition p of the lines: a record for each change, with the word as its key and
its count so far as its value. So the state of a partition is the last value of each key, and a compacted topic keeps
just that. The count of a word in all lines is the sum over the partitions.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from aioprod import TopicPartition
from aioprod.reader import Reader

__all__ = ["CountsTopic", "words_of"]

WAIT_S: Final = 0.05
"""How long to wait for the end of a transaction before it is looked for again."""
ENDED_S_MAX: Final = 120.0
"""How long to wait for it in all: brokers end one that is left open after `transaction.timeout.ms`."""


def words_of(line: bytes) -> list[str]:
    """The words of a line, in small letters."""
    return re.findall(r"\w+", line.decode(errors="replace").lower())


class CountsTopic:
    """Reads the counts of a topic; an async context manager."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._topic = topic
        self._committed = Reader(bootstrap_servers, isolation_level="read_committed")
        self._all = Reader(bootstrap_servers)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._committed)
            await stack.enter_async_context(self._all)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def restore(self, partition: int) -> Counter[str]:
        """The counts of a partition, with those of each transaction that was committed before this call.

        Raises TimeoutError when a transaction stays open for two minutes, and what `Reader.read` raises.
        """
        place = TopicPartition(self._topic, partition)
        end = (await self._all.offsets(self._topic))[place]
        # A transaction whose offsets are committed may not have ended in this partition yet: readers with
        # read_committed would end before it.
        async with asyncio.timeout(ENDED_S_MAX):
            while (await self._committed.offsets(self._topic))[place] < end:  # noqa: ASYNC110
                await asyncio.sleep(WAIT_S)
        counts: Counter[str] = Counter()
        async for record in self._committed.read(self._topic, partitions=[partition]):
            counts[record.key.decode()] = int(record.value)
        return counts

    async def totals(self) -> Counter[str]:
        """The count of each word in all partitions."""
        totals: Counter[str] = Counter()
        for place in await self._all.offsets(self._topic):
            totals.update(await self.restore(place.partition))
        return totals
