"""Which offset a partition has at a time, at its start or at its end (ListOffsets)."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from aioprod.calls.leaders import LeaderRequests, PendingPartition
from aioprod.calls.session import Session
from aioprod.errors import ConfigError, ErrorCode, ProtocolError
from aioprod.messages import ListOffsetsRequest, ListOffsetsResponse
from aioprod.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from aioprod.reader.config import ISOLATION_LEVELS
from aioprod.types import Timestamp, TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "At",
    "Lookup",
    "Lookups",
    "look_up",
    "offsets_at",
    "timestamp_of",
    "topic_offsets",
]

At: TypeAlias = Literal["earliest", "latest"] | Timestamp
"""The start of a log, its end, or the first record that is not older than a time."""

LATEST: Final = -1
EARLIEST: Final = -2

_ALL_OLDER: Final = -1
"""The offset that a broker gives where all records are older than a time."""


def timestamp_of(what: str, at: object) -> int:
    """The timestamp for ListOffsets of `at`, an `At`; raises ConfigError that names the argument `what`."""
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
class Lookup(PendingPartition):
    """The lookup of a partition's offset at `timestamp`."""

    timestamp: int = LATEST
    """In ms, or EARLIEST or LATEST."""
    offset: int | None = None
    """-1 where all records are older."""
    resets: int = 0
    """How many lookups in a row gave an offset that was then out of range."""
    since: int | None = None
    """A time to look up next, in ms; `timestamp` is LATEST then, for a partition in which all records are older."""
    end: int | None = None
    """What LATEST gave before."""

    @property
    def is_done(self) -> bool:
        return self.offset is not None


class Lookups(LeaderRequests[Lookup, ListOffsetsResponse]):
    """Looks offsets up, with one request for each leader.

    Under read_committed a partition ends at its last stable offset, where the first open transaction begins.
    """

    def __init__(self, session: Session, lookups: Collection[Lookup], isolation: str, *, patient: bool = False) -> None:
        super().__init__(
            session, lookups, self._request, purpose="queried for its offsets", operation="DESCRIBE", patient=patient
        )
        self._isolation_level = ISOLATION_LEVELS[isolation]

    def _request(self, node_id: int, lookups: Sequence[Lookup]) -> ListOffsetsRequest:
        cluster = self._session.cluster()
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for one in lookups:
            row = ListOffsetsPartition(
                partition_index=one.tp.partition,
                current_leader_epoch=cluster.leader_epoch(one.tp),
                timestamp=one.timestamp,
            )
            topics.setdefault(one.tp.topic, []).append(row)
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation_level,
            topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(rows)) for name, rows in topics.items()),
            timeout_ms=self._session.config.request_timeout_ms,
        )

    async def found(self) -> list[Lookup] | None:
        """The lookups that the next response completes; None at the end. Raises what `next` and `rejected` raise."""
        answered = await self.next()
        if answered is None:
            return None
        rows = {
            TopicPartition(topic.name, row.partition_index): row
            for topic in answered.response.topics
            for row in topic.partitions
        }
        done: list[Lookup] = []
        for one in answered.partitions:
            row = rows.get(one.tp)
            if row is None:
                self.missing_in_response(one)
            elif row.error_code != ErrorCode.NONE:
                self.rejected(one, ErrorCode.of(row.error_code))
            elif row.offset < 0 and (one.timestamp < 0 or row.offset != _ALL_OLDER):
                self.retry_later(one, ProtocolError(f"its leader gave offset {row.offset}."))
            else:
                one.offset = row.offset
                self.succeeded(one)
                done.append(one)
        return done


async def topic_offsets(session: Session, topic: str, at: object, isolation: str) -> dict[TopicPartition, int]:
    """The offset of each partition of a topic at `at`, an `At`: the end where all records are older.

    Raises ConfigError, and what `Session.partitions` and `look_up` raise.
    """
    timestamp = timestamp_of("at", at)
    partitions = [TopicPartition(topic, info.partition) for info in await session.partitions(topic)]
    return await offsets_at(session, partitions, timestamp, isolation)


async def offsets_at(
    session: Session, partitions: Iterable[TopicPartition], timestamp: int, isolation: str
) -> dict[TopicPartition, int]:
    """The offset of each partition at one timestamp, as `look_up`, but the end where all records are older."""
    found = await look_up(session, dict.fromkeys(partitions, timestamp), isolation)
    older = [tp for tp, offset in found.items() if offset < 0]
    return found | await look_up(session, dict.fromkeys(older, LATEST), isolation)


async def look_up(session: Session, at: Mapping[TopicPartition, int], isolation: str) -> dict[TopicPartition, int]:
    """The offset of each partition at its timestamp (ms, EARLIEST or LATEST), -1 where all records are older.

    Raises what `Lookups.found` raises.
    """
    lookups = [Lookup(tp, timestamp=timestamp) for tp, timestamp in at.items()]
    async with Lookups(session, lookups, isolation) as pending:
        while await pending.found() is not None:
            pass
    return {one.tp: one.offset for one in lookups if one.offset is not None}
