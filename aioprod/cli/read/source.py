"""Where records are read: between bounds, on and on, or as a member of a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from aioprod.errors import UsageError
from aioprod.group import Member
from aioprod.reader import Reader
from aioprod.reader.fetching import decompressed
from aioprod.types import TopicPartition

__all__ = ["Bounds", "Chunk", "Place", "bounded", "followed", "of_member", "resolved"]

_LOOK_S: Final = 0.25
"""How often the end of a topic is looked up that has had no new record."""
_CHUNK: Final = 1000
"""Records that are handed on at once."""
_MEMBER_CHUNK: Final = 500
_GATHER_MS: Final = 500
"""How long records of a group are gathered: each list is a commit."""

Place: TypeAlias = str | int
"""`earliest`, `latest`, an offset of all partitions, or, as "time:" and milliseconds, a time."""


class Bounds(NamedTuple):
    """What to read: from where, to where (None: the end as it is now), and which partitions (None: all)."""

    start: Place = "earliest"
    end: Place | None = None
    last: int | None = None
    partitions: frozenset[int] | None = None


class Chunk(NamedTuple):
    """Some records of one partition."""

    topic: str
    partition: int
    records: list[Any]


async def resolved(reader: Reader, topic: str, bounds: Bounds) -> dict[int, tuple[int, int]]:
    """The first offset to read of each partition, and the first that is not to be read any more."""
    lowest = await reader.offsets(topic, "earliest")
    highest = await reader.offsets(topic, "latest")
    known = {tp.partition for tp in highest}
    wanted = known if bounds.partitions is None else bounds.partitions
    missing = sorted(wanted - known)
    if missing:
        raise UsageError(f"Topic {topic!r} has no partition {missing[0]}: it has {len(known)} (0 to {len(known) - 1}).")
    end = "latest" if bounds.end is None else bounds.end
    ends = await _offsets(reader, topic, end, lowest, highest)
    starts: Mapping[TopicPartition, int]
    if bounds.last is not None:
        starts = {tp: max(lowest[tp], ends[tp] - bounds.last) for tp in ends}
    else:
        starts = await _offsets(reader, topic, bounds.start, lowest, highest)
    return {
        tp.partition: (starts[tp], max(starts[tp], min(ends[tp], highest[tp])))
        for tp in sorted(highest)
        if tp.partition in wanted
    }


async def _offsets(
    reader: Reader,
    topic: str,
    place: Place,
    lowest: Mapping[TopicPartition, int],
    highest: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    if isinstance(place, int):
        return {tp: min(max(place, lowest[tp]), highest[tp]) for tp in lowest}
    if place.startswith("time:"):
        return await reader.offsets(topic, int(place.removeprefix("time:")))
    return lowest if place == "earliest" else highest


async def bounded(reader: Reader, topic: str, spans: Mapping[int, tuple[int, int]]) -> AsyncGenerator[Chunk, None]:
    """The records of partitions between offsets."""
    wanted = {partition: span for partition, span in spans.items() if span[0] < span[1]}
    if not wanted:
        return
    starts = {partition: start for partition, (start, _) in wanted.items()}
    ends = {partition: end for partition, (_, end) in wanted.items()}
    async with aclosing(reader.batches(topic, start=starts, end=ends, partitions=list(wanted))) as batches:
        async for fetched in batches:
            records = (await decompressed(fetched)).records()
            while chunk := list(islice(records, _CHUNK)):
                yield Chunk(topic, fetched.tp.partition, chunk)
                await asyncio.sleep(0)


async def followed(reader: Reader, topic: str, starts: Mapping[int, int]) -> AsyncGenerator[Chunk, None]:
    """The records from these offsets on, for as long as they come; partitions that are added are read, too."""
    positions = dict(starts)
    while True:
        ends = {tp.partition: end for tp, end in (await reader.offsets(topic, "latest")).items()}
        spans = {partition: (start, ends[partition]) for partition, start in positions.items() if partition in ends}
        is_idle = all(start >= end for start, end in spans.values())
        async for chunk in bounded(reader, topic, spans):
            yield chunk
        positions |= {partition: max(end, positions[partition]) for partition, (_, end) in spans.items()}
        if is_idle:
            await asyncio.sleep(_LOOK_S)


async def of_member(member: Member) -> AsyncGenerator[list[Chunk], None]:
    """The records that the group assigns to a member, as they come; each list is to be committed."""
    async for records in member.batches(max_records=_MEMBER_CHUNK, max_wait_ms=_GATHER_MS):
        yield list(_by_partition(records))


def _by_partition(records: Iterable[Any]) -> Iterable[Chunk]:
    chunks: list[Chunk] = []
    for record in records:
        if not chunks or (chunks[-1].topic, chunks[-1].partition) != (record.topic, record.partition):
            chunks.append(Chunk(record.topic, record.partition, []))
        chunks[-1].records.append(record)
    return chunks
