"""What a Fetch request asks for, and which of the batches in its answer a reader is given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from aioprod.cluster import Cluster
from aioprod.errors import AioprodError, ErrorCode, ProtocolError
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.messages.fetch import AbortedTransaction, FetchPartition, FetchTopic, PartitionData
from aioprod.reader.leaders import LeaderRequests, Wanted
from aioprod.reader.settings import ReaderConfig
from aioprod.records import Compression, ControlType, ParsedBatch, ParsedRecord, decompress, parse_batches
from aioprod.records.layout import CODEC_MASK
from aioprod.types import ConsumedRecord, TopicPartition
from aioprod.wire.buffer import Buffer
from aioprod.wire.frame import FRAME_SIZE_MAX
from aioprod.wire.schema import ZERO_UUID

__all__ = [
    "ENDLESS",
    "FetchByName",
    "FetchedBatch",
    "Fetching",
    "Position",
    "answer_size_max",
    "ends_told",
    "naming",
    "out_of_range",
    "unpacked",
]

ENDLESS: Final = 2**63 - 1
"""The `end` of a partition that is read for as long as records come."""

_LARGE: Final = 128 * 1024
"""Compressed bytes from which on a batch is decompressed in a worker thread: on the loop that could take over 10 ms."""

_ANSWER_OVERHEAD: Final = 1_000_000
"""Room for what an answer holds beside records: offsets and errors by partition, aborted transactions."""


def answer_size_max(config: ReaderConfig) -> int:
    """The longest answer that may come, for the `frame_size_max` of a `Session` that fetches."""
    return max(FRAME_SIZE_MAX, config.fetch_max_bytes + _ANSWER_OVERHEAD)


class FetchByName(FetchRequest):
    """A Fetch request in the versions that name topics, for one that has no id (KIP-516)."""

    __slots__ = ()

    VERSIONS = (4, 12)


@dataclass(slots=True, eq=False, kw_only=True)
class Position(Wanted):
    """How far a partition was read: `offset` is the next one, `end` the one after the last that is wanted.

    `topic_id` says which topic of that name it is, None where the cluster has no ids. `turn` counts up with each answer
    that brought something: who got least is asked for first.
    """

    offset: int
    end: int
    topic_id: UUID | None = None
    turn: int = 0

    @property
    def is_done(self) -> bool:
        return self.offset >= self.end

    def is_replaced(self, cluster: Cluster) -> bool:
        """Whether the topic was deleted and created again: what comes now has nothing to do with what was."""
        topic_id = cluster.topic_id(self.tp.topic)
        return self.topic_id is not None and topic_id is not None and topic_id != self.topic_id


class FetchedBatch(NamedTuple):
    """A batch of data with the offsets that are wanted of it: from `start` on, up to but not including `end`.

    Its bytes are a part of the broker's answer, which lives as long as one of its batches.
    """

    tp: TopicPartition
    batch: ParsedBatch
    start: int
    end: int

    @property
    def is_large(self) -> bool:
        """Whether to unpack it takes long."""
        return self.batch.codec != Compression.NONE and self.batch.size >= _LARGE

    def records(self) -> Iterator[ParsedRecord]:
        """The records that are wanted; raises CorruptRecordError as `ParsedBatch.records` does."""
        with naming(self.tp):
            for record in self.batch.records():
                if self.start <= record.offset < self.end:
                    yield record

    def consumed(self) -> Iterator[ConsumedRecord]:
        """The same as a user is given them."""
        topic, partition = self.tp
        start, end = self.start, self.end
        with naming(self.tp):
            for offset, timestamp, key, value, headers in self.batch.records():
                if start <= offset < end:
                    yield ConsumedRecord(topic, partition, offset, key, value, headers, timestamp)


async def unpacked(fetched: FetchedBatch) -> FetchedBatch:
    """The same batch, uncompressed if it is so large that this needs a worker thread; raises CorruptRecordError."""
    if not fetched.is_large:
        return fetched
    batch = fetched.batch
    with naming(fetched.tp):
        data = await asyncio.to_thread(decompress, batch.codec, batch.payload, batch.decompressed_max)
    return fetched._replace(batch=replace(batch, attributes=batch.attributes & ~CODEC_MASK, payload=memoryview(data)))


class Fetching:
    """One reading of any partitions: makes its Fetch requests, and takes their answers."""

    def __init__(self, isolation_level: int, config: ReaderConfig) -> None:
        self._isolation_level = isolation_level
        self._config = config
        self._turns = 0

    def request(self, positions: Sequence[Position], cluster: Cluster) -> FetchRequest:
        """A request without a fetch session (KIP-227) for some partitions of one leader.

        Those come first that got least, as far as it takes to name a topic again and again.
        """
        topics = [
            FetchTopic(
                topic=topic,
                topic_id=topic_id or ZERO_UUID,
                partitions=tuple(
                    FetchPartition(
                        partition=one.tp.partition,
                        current_leader_epoch=cluster.leader_epoch(one.tp),
                        fetch_offset=one.offset,
                        partition_max_bytes=self._config.max_partition_fetch_bytes,
                    )
                    for one in some
                ),
            )
            for (topic, topic_id), some in groupby(
                sorted(positions, key=lambda one: one.turn), key=lambda one: (one.tp.topic, one.topic_id)
            )
        ]
        kind = FetchRequest if all(one.topic_id is not None for one in positions) else FetchByName
        return kind(
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=self._isolation_level,
            topics=tuple(topics),
        )

    def take(
        self, leaders: LeaderRequests[Position, FetchResponse], asked: Sequence[Position], answer: FetchResponse
    ) -> Iterator[FetchedBatch]:
        """The batches that an answer brings for the partitions that were asked for, each moving its position on.

        Raises what `LeaderRequests.refused` and `parse_batches` raise.
        """
        rows = _rows(asked, answer)
        silent: list[Position] = []
        for one in asked:
            if one.is_done:
                continue
            row = rows.get(one.tp)
            code = ErrorCode.of(answer.error_code if row is None else row.error_code)
            if code != ErrorCode.NONE:
                leaders.refused(one, code)
            elif row is None:
                leaders.left_out(one)
            else:
                before = one.offset
                if row.records:
                    try:
                        yield from self._visible(one, row.records, row.aborted_transactions or ())
                    except ProtocolError as error:
                        leaders.again(one, error)
                        raise
                if one.offset == before and one.end < ENDLESS:
                    silent.append(one)
                    continue
                if one.offset > before:
                    self._turns += 1
                    one.turn = self._turns
                leaders.advanced(one)
        if len(silent) == len(asked):
            # Else the size limit of the answer may be why the others got nothing: they are asked for again at once.
            for one in silent:
                leaders.again(one, _silence(one, rows[one.tp]))

    def _visible(self, one: Position, records: Buffer, aborted: Iterable[AbortedTransaction]) -> Iterator[FetchedBatch]:
        hidden = _Hidden(aborted)
        with naming(one.tp):
            for batch in parse_batches(records, verify_crc=self._config.check_crcs):
                hides = hidden.hides(batch)
                start = one.offset
                one.offset = max(start, batch.next_offset)
                if not hides and start < one.offset and batch.base_offset < one.end:
                    yield FetchedBatch(one.tp, batch, start, one.end)
                if one.is_done:
                    return


def _rows(asked: Sequence[Position], answer: FetchResponse) -> dict[TopicPartition, PartitionData]:
    """What an answer says of each partition; up to version 12 it names topics, from then on it has their ids."""
    names = {one.topic_id: one.tp.topic for one in asked}
    return {
        TopicPartition(topic.topic or names.get(topic.topic_id, ""), row.partition_index): row
        for topic in answer.responses
        for row in topic.partitions
    }


def ends_told(asked: Sequence[Position], answer: FetchResponse, isolation_level: int) -> dict[TopicPartition, int]:
    """Where the partitions ended for a reader of that isolation level when the broker answered."""
    return {
        tp: row.last_stable_offset if isolation_level else row.high_watermark
        for tp, row in _rows(asked, answer).items()
        if row.error_code == ErrorCode.NONE
    }


def out_of_range(asked: Sequence[Position], answer: FetchResponse) -> list[Position]:
    """Those whose log does not have their offset: retention has removed it, or it was never reached."""
    rows = _rows(asked, answer)
    return [one for one in asked if one.tp in rows and rows[one.tp].error_code == ErrorCode.OFFSET_OUT_OF_RANGE]


class _Hidden:
    """Which batches no user is given: control batches, and under read_committed those of aborted transactions.

    A broker lists the aborted transactions for read_committed only. A transaction counts from its first offset until
    its producer's next abort marker (KIP-98).
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._producers: set[int] = set()

    def hides(self, batch: ParsedBatch) -> bool:
        """Has to be asked of each batch in their order; raises CorruptRecordError for a malformed marker."""
        while self._to_come and self._to_come[-1].first_offset < batch.next_offset:
            self._producers.add(self._to_come.pop().producer_id)
        aborted = batch.is_transactional and batch.producer_id in self._producers
        if aborted and batch.control_type() == ControlType.ABORT:
            self._producers.discard(batch.producer_id)
        return aborted or batch.is_control


def _silence(one: Position, row: PartitionData) -> AioprodError:
    return ProtocolError(
        f"its leader has nothing from offset {one.offset} to {one.end}, with a high watermark of "
        f"{row.high_watermark} and a last stable offset of {row.last_stable_offset}."
    )


@contextmanager
def naming(tp: TopicPartition) -> Iterator[None]:
    """Say in errors about bytes which partition they are of."""
    try:
        yield
    except ProtocolError as error:
        text = f"Partition {tp.partition} of topic {tp.topic!r} can't be read: {error.message}"
        raise type(error)(text, hint=error.hint) from error
