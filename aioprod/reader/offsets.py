"""Which offset a partition has at a time, at its start or at its end (ListOffsets)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from aioprod.errors import ConfigError, ErrorCode
from aioprod.messages import ListOffsetsRequest, ListOffsetsResponse
from aioprod.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from aioprod.reader.leaders import LeaderRequests, Wanted
from aioprod.reader.session import Session
from aioprod.reader.settings import ISOLATION_LEVELS
from aioprod.types import Timestamp, TopicPartition

__all__ = ["EARLIEST", "LATEST", "At", "look_up", "timestamp_of", "topic_offsets"]

At: TypeAlias = Literal["earliest", "latest"] | Timestamp
"""The start of a log, its end, or the first record that is not older than a time."""

LATEST: Final = -1
EARLIEST: Final = -2


def timestamp_of(what: str, at: object) -> int:
    """`at`, an `At`, as ListOffsets wants it; raises ConfigError that names `what` was given."""
    if at == "earliest":
        return EARLIEST
    if at == "latest":
        return LATEST
    if isinstance(at, datetime.datetime):
        if at.tzinfo is None:
            raise ConfigError(f"{what} is {at!r}, which has no time zone: give an aware datetime.")
        at = round(at.timestamp() * 1000)
    if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < 2**63:
        raise ConfigError(f"{what} is {at!r}: give a time, in ms since the epoch (from 0 on) or as an aware datetime.")
    return at


@dataclass(slots=True, eq=False)
class _Lookup(Wanted):
    offset: int | None = None

    @property
    def is_done(self) -> bool:
        return self.offset is not None


async def topic_offsets(session: Session, topic: str, at: object, isolation: str) -> dict[TopicPartition, int]:
    """The offset of each partition of a topic at `at`, an `At`: the end where all records are older.

    Raises ConfigError, and what `Session.partitions` and `look_up` raise.
    """
    timestamp = timestamp_of("at", at)
    partitions = range(len(await session.partitions(topic)))
    found = await look_up(session, topic, partitions, timestamp, isolation)
    older = [partition for partition, offset in found.items() if offset < 0]
    found |= await look_up(session, topic, older, LATEST, isolation)
    return {TopicPartition(topic, partition): offset for partition, offset in found.items()}


async def look_up(
    session: Session, topic: str, partitions: Sequence[int], timestamp: int, isolation: str
) -> dict[int, int]:
    """The offset of each partition at `timestamp` (ms, EARLIEST or LATEST), -1 where all records are older.

    Under read_committed a partition ends at its last stable offset, where the first open transaction begins. Raises
    what `LeaderRequests.next` and `LeaderRequests.refused` raise.
    """

    def request(lookups: Sequence[_Lookup]) -> ListOffsetsRequest:
        cluster = session.client.metadata.cluster
        rows = [
            ListOffsetsPartition(
                partition_index=one.tp.partition, current_leader_epoch=cluster.leader_epoch(one.tp), timestamp=timestamp
            )
            for one in lookups
        ]
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=ISOLATION_LEVELS[isolation],
            topics=(ListOffsetsTopic(name=topic, partitions=tuple(rows)),),
            timeout_ms=session.config.request_timeout_ms,
        )

    lookups = [_Lookup(TopicPartition(topic, partition)) for partition in partitions]
    async with LeaderRequests(session, topic, lookups, request, purpose="asked for its offsets") as leaders:
        while (answer := await leaders.next()) is not None:
            _take(leaders, *answer)
    return {one.tp.partition: one.offset for one in lookups if one.offset is not None}


def _take(
    leaders: LeaderRequests[_Lookup, ListOffsetsResponse], asked: Sequence[_Lookup], answer: ListOffsetsResponse
) -> None:
    rows = {row.partition_index: row for topic in answer.topics for row in topic.partitions}
    for one in asked:
        row = rows.get(one.tp.partition)
        if row is None:
            leaders.left_out(one)
        elif row.error_code != ErrorCode.NONE:
            leaders.refused(one, ErrorCode.of(row.error_code))
        else:
            one.offset = row.offset
            leaders.advanced(one)
