"""The log of a partition as it is stored: every batch, also markers and what a transaction has aborted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from random import Random
from uuid import UUID

from aioprod.calls.session import Session, SessionUser
from aioprod.reader.config import ReaderConfig
from aioprod.reader.fetching import FetchedBatch, answer_size_max
from aioprod.reader.offsets import look_up
from aioprod.reader.position import Position
from aioprod.reader.read_replicas import ReadReplicas
from aioprod.reader.responses import responses
from aioprod.types import TopicPartition

__all__ = ["PartitionLog"]


class PartitionLog(SessionUser):
    """Reads what is stored, for what has to know of each offset; an async context manager with connections of its own.

    `config` decides how much a response may hold; it must be read_uncommitted, so that nothing before the high
    watermark is left out. `name` is what messages call the client; `clock` and `random` are those of a `Session`.
    """

    def __init__(self, config: ReaderConfig, name: str, *, clock: Callable[[], float], random: Random) -> None:
        self._config = config
        self._session = Session(config, name, clock=clock, random=random, frame_size_max=answer_size_max(config))
        self._replicas = ReadReplicas(self._session.cluster, config.metadata_max_age_ms / 1000)

    async def offset(self, tp: TopicPartition, timestamp: int) -> int:
        """The first offset at or after `timestamp` (in ms, or EARLIEST or LATEST), -1 where all records are older.

        Raises what `look_up` raises.
        """
        await self._session.partitions(tp.topic)
        return (await look_up(self._session, {tp: timestamp}, self._config.isolation_level))[tp]

    async def batches(
        self, tp: TopicPartition, start: int, end: int, topic_id: UUID | None
    ) -> AsyncGenerator[list[FetchedBatch], None]:
        """All batches from the one that has offset `start` up to the one before `end`, response by response.

        `topic_id` is None where the cluster has no ids. Raises what `responses` raises.
        """
        await self._session.partitions(tp.topic)
        position = Position(tp=tp, offset=start, end=end, topic_id=topic_id)
        answers = responses(self._session, self._config, self._replicas, [position], hides=False)
        async with aclosing(answers) as found:
            async for batches in found:
                if response := list(batches):
                    yield response
