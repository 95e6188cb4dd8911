"""The offsets between which a topic is read: arguments of the user, checked and resolved to offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aioprod.calls.session import Session, check_topic_name
from aioprod.errors import BrokerError, ConfigError, ErrorCode
from aioprod.reader.offsets import EARLIEST, LATEST, look_up, timestamp_of
from aioprod.types import Timestamp, TopicPartition

__all__ = ["Bound", "Selection"]

Bound: TypeAlias = Mapping[int, int] | Mapping[TopicPartition, int] | Timestamp | None
"""An offset for some partitions, by index or TopicPartition, or a time for all of them, or nothing."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a topic to read."""

    topic: str
    start: Mapping[int, int] | int
    """Offsets by partition, or a timestamp in ms."""
    end: Mapping[int, int] | int
    """As `start`."""
    partitions: tuple[int, ...] | None

    @classmethod
    def of(cls, topic: str, start: Bound, end: Bound, partitions: Iterable[int] | None) -> Selection:
        """Check the arguments of the user; raises ConfigError or InvalidTopicError."""
        check_topic_name(topic)
        chosen = None if partitions is None else tuple(sorted({_index(topic, "partitions", one) for one in partitions}))
        return cls(topic, _checked(topic, "start", start), _checked(topic, "end", end), chosen)

    async def resolve(self, session: Session, count: int, isolation: str) -> dict[int, tuple[int, int]]:
        """The first offset and the one after the last, by partition; never beyond the present end.

        `count` is the number of the topic's partitions. Raises ConfigError for an unknown partition, BrokerError
        (OFFSET_OUT_OF_RANGE) for a start that the log has not reached, and what `look_up` raises.
        """
        for name, given in (("partitions", self.partitions), ("start", self.start), ("end", self.end)):
            unknown = [index for index in given if index >= count] if isinstance(given, Iterable) else []
            if unknown:
                raise ConfigError(f"{name} names partition {unknown[0]}: topic {self.topic!r} has 0 to {count - 1}.")
        chosen = range(count) if self.partitions is None else self.partitions
        latest = await self._at(session, chosen, LATEST, isolation)
        starts = await self._offsets(session, self.start, EARLIEST, latest, isolation)
        ends = await self._offsets(session, self.end, LATEST, latest, isolation)
        await self._check_reached(session, {index: start for index, start in starts.items() if start > latest[index]})
        return {index: (starts[index], min(ends[index], latest[index])) for index in chosen}

    async def _offsets(
        self,
        session: Session,
        bound: Mapping[int, int] | int,
        default: int,
        latest: Mapping[int, int],
        isolation: str,
    ) -> dict[int, int]:
        """The offset of `bound` for each partition of `latest`; where it has none, that of the timestamp `default`."""
        given, timestamp = ({}, bound) if isinstance(bound, int) else (bound, default)
        found = latest
        if timestamp != LATEST:
            missing = [index for index in latest if index not in given]
            found = await self._at(session, missing, timestamp, isolation)
        # -1 means that all records are older than the time: read from the end on.
        offsets = {index: given.get(index, found.get(index, -1)) for index in latest}
        return {index: latest[index] if offset < 0 else offset for index, offset in offsets.items()}

    async def _at(self, session: Session, indexes: Iterable[int], timestamp: int, isolation: str) -> dict[int, int]:
        timestamps = {TopicPartition(self.topic, index): timestamp for index in indexes}
        return {tp.partition: offset for tp, offset in (await look_up(session, timestamps, isolation)).items()}

    async def _check_reached(self, session: Session, starts: Mapping[int, int]) -> None:
        """Check starts beyond the last stable offset: the log has to have reached them."""
        ends = await self._at(session, starts, LATEST, "read_uncommitted")
        for index, start in starts.items():
            if start > ends[index]:
                raise BrokerError(
                    f"Partition {index} of topic {self.topic!r} can't be read from offset {start} on: it ends at "
                    f"{ends[index]}.",
                    code=ErrorCode.OFFSET_OUT_OF_RANGE,
                    hint="Was the topic deleted and created again since that offset was noted?",
                )


def _checked(topic: str, name: str, bound: object) -> Mapping[int, int] | int:
    if bound is None:
        return {}
    if isinstance(bound, Mapping):
        return {_index(topic, name, key): _offset(name, key, offset) for key, offset in bound.items()}
    if isinstance(bound, str):
        raise ConfigError(f"{name} is {bound!r}: give offsets by partition, a timestamp in ms or an aware datetime.")
    return timestamp_of(name, bound)


def _index(topic: str, name: str, key: object) -> int:
    if isinstance(key, TopicPartition):
        if key.topic != topic:
            raise ConfigError(f"{name} names a partition of topic {key.topic!r}, but {topic!r} is read.")
        key = key.partition
    if isinstance(key, bool) or not isinstance(key, int) or key < 0:
        raise ConfigError(f"{name} names partition {key!r}: give an int from 0 on, or a TopicPartition.")
    return key


def _offset(name: str, key: object, offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < 2**63:
        raise ConfigError(f"{name} has {offset!r} for partition {key!r}: give an offset, an int from 0 on.")
    return offset
