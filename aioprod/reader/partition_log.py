"""The log of a partition as it is stored: every batch, also markers and what a transaction has aborted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from random import Random
from uuid import UUID

from aioprod.calls.session import Session, SessionUser
from aioprod.reader.config import ReaderConfig
from aioprod.reader.fetching import FetchedBatch, answer_size_max
from aioprod.reader.offsets import look_up
from aioprod.reader.position import Position
from aioprod.reader.read_replicas import ReadReplicas
from aioprod.reader.responses import check_same, lists_of
from aioprod.types import TopicPartition

__all__ = ["PartitionLog"]


class PartitionLog(SessionUser):
    """Reads what is stored in a partition, for what has to know of each offset; a client of its own.

    `topic_id` is None where the cluster has no ids. `config` decides how much a response may hold; it must be
    read_uncommitted, so that nothing before the high watermark is left out. `name` is what messages call the client;
    `clock` and `random` are those of a `Session`.
    """

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: UUID | None,
        config: ReaderConfig,
        name: str,
        *,
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._tp = tp
        self._topic_id = topic_id
        self._config = config
        self._session = Session(config, name, clock=clock, random=random, frame_size_max=answer_size_max(config))
        self._replicas = ReadReplicas(self._session.cluster, config.metadata_max_age_ms / 1000)

    async def start(self) -> None:
        """Connect, and get the topic's metadata.

        Raises what `Session.start` and `Session.partitions` raise, and BrokerError (INCONSISTENT_TOPIC_ID) for a topic
        that was created again.
        """
        await super().start()
        try:
            await self._session.partitions(self._tp.topic)
            check_same([self._position(0, 0)], self._session.cluster())
        except BaseException:
            await self.close()
            raise

    async def offset(self, timestamp: int) -> int:
        """The first offset at or after `timestamp` (in ms, or EARLIEST or LATEST), -1 where all records are older.

        Raises what `look_up` raises.
        """
        return (await look_up(self._session, {self._tp: timestamp}, self._config.isolation_level))[self._tp]

    def batches(self, start: int, end: int) -> AsyncGenerator[list[FetchedBatch], None]:
        """All batches from the one that has offset `start` up to the one before `end`, response by response.

        Raises what `responses` raises.
        """
        return lists_of(self._session, self._config, self._replicas, self._position(start, end), hides=False)

    def _position(self, start: int, end: int) -> Position:
        return Position(tp=self._tp, offset=start, end=end, topic_id=self._topic_id)
