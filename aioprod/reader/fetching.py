"""What a Fetch request asks for, and which of the batches in its answer a reader is given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

from aioprod.cluster import Cluster
from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.messages.fetch import AbortedTransaction, FetchPartition, FetchTopic, PartitionData
from aioprod.reader.leaders import LeaderRequests, Wanted
from aioprod.reader.settings import ReaderConfig
from aioprod.records import Compression, ControlType, ParsedBatch, ParsedRecord, decompress, parse_batches
from aioprod.records.layout import CODEC_MASK
from aioprod.types import TopicPartition
from aioprod.wire.schema import ZERO_UUID

__all__ = ["FetchByName", "FetchedBatch", "Fetching", "Position", "naming", "unpacked"]

_LARGE: Final = 128 * 1024
"""Compressed bytes from which on a batch is decompressed in a worker thread: on the loop that could take over 10 ms."""


class FetchByName(FetchRequest):
    """A Fetch request in the versions that name topics, for one that has no id (KIP-516)."""

    __slots__ = ()

    VERSIONS = (4, 12)


@dataclass(slots=True, eq=False, kw_only=True)
class Position(Wanted):
    """How far a partition was read: `offset` is the next one, `end` the one after the last that is wanted.

    `turn` counts up with each answer that brought something: who got least is asked for first.
    """

    offset: int
    end: int
    turn: int = 0

    @property
    def is_done(self) -> bool:
        return self.offset >= self.end


class FetchedBatch(NamedTuple):
    """A batch of data with the offsets that are wanted of it: from `start` on, up to but not including `end`.

    Its bytes are a part of the broker's answer, which lives as long as one of its batches.
    """

    tp: TopicPartition
    batch: ParsedBatch
    start: int
    end: int

    def records(self) -> Iterator[ParsedRecord]:
        """The records that are wanted; raises CorruptRecordError as `ParsedBatch.records` does."""
        with naming(self.tp):
            for record in self.batch.records():
                if self.start <= record.offset < self.end:
                    yield record


async def unpacked(fetched: FetchedBatch) -> FetchedBatch:
    """The same batch, uncompressed if it is so large that this needs a worker thread; raises CorruptRecordError."""
    batch = fetched.batch
    if batch.codec == Compression.NONE or batch.size < _LARGE:
        return fetched
    with naming(fetched.tp):
        data = await asyncio.to_thread(decompress, batch.codec, batch.payload, batch.decompressed_max)
    return fetched._replace(batch=replace(batch, attributes=batch.attributes & ~CODEC_MASK, payload=memoryview(data)))


class Fetching:
    """One reading of a topic: makes its Fetch requests, and takes their answers.

    `topic_id` is None where the cluster has none. Raises BrokerError when another topic of that name takes its place.
    """

    def __init__(self, topic: str, topic_id: UUID | None, isolation_level: int, config: ReaderConfig) -> None:
        self._topic = topic
        self._topic_id = topic_id
        self._isolation_level = isolation_level
        self._config = config
        self._turns = 0

    def request(self, positions: Sequence[Position], cluster: Cluster) -> FetchRequest:
        """A request without a fetch session (KIP-227) for some partitions of one leader."""
        self._check_same(cluster)
        rows = [
            FetchPartition(
                partition=one.tp.partition,
                current_leader_epoch=cluster.leader_epoch(one.tp),
                fetch_offset=one.offset,
                partition_max_bytes=self._config.max_partition_fetch_bytes,
            )
            for one in sorted(positions, key=lambda one: one.turn)
        ]
        topic = FetchTopic(topic=self._topic, topic_id=self._topic_id or ZERO_UUID, partitions=tuple(rows))
        kind = FetchByName if self._topic_id is None else FetchRequest
        return kind(
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=self._isolation_level,
            topics=(topic,),
        )

    def _check_same(self, cluster: Cluster) -> None:
        topic_id = cluster.topic_id(self._topic)
        if self._topic_id is not None and topic_id is not None and topic_id != self._topic_id:
            raise BrokerError(
                f"Topic {self._topic!r} was deleted and created again while it was read.",
                code=ErrorCode.INCONSISTENT_TOPIC_ID,
                hint="What was read up to here belongs to the topic that is gone.",
            )

    def take(
        self, leaders: LeaderRequests[Position, FetchResponse], asked: Sequence[Position], answer: FetchResponse
    ) -> Iterator[FetchedBatch]:
        """The batches that an answer brings for the partitions that were asked for, each moving its position on.

        Raises what `LeaderRequests.refused` and `parse_batches` raise.
        """
        rows = {row.partition_index: row for topic in answer.responses for row in topic.partitions}
        silent: list[Position] = []
        for one in asked:
            row = rows.get(one.tp.partition)
            code = ErrorCode.of(answer.error_code if row is None else row.error_code)
            if code != ErrorCode.NONE:
                leaders.refused(one, code)
            elif row is None:
                leaders.left_out(one)
            else:
                before = one.offset
                yield from self._visible(one, row)
                if one.offset == before:
                    silent.append(one)
                else:
                    self._turns += 1
                    one.turn = self._turns
                    leaders.advanced(one)
        if len(silent) == len(asked):
            # Else the size limit of the answer may be why the others got nothing: they are asked for again at once.
            for one in silent:
                leaders.again(one, _silence(one, rows[one.tp.partition]))

    def _visible(self, one: Position, row: PartitionData) -> Iterator[FetchedBatch]:
        hidden = _Hidden(row.aborted_transactions or ())
        with naming(one.tp):
            for batch in parse_batches(row.records or b"", verify_crc=self._config.check_crcs):
                hides = hidden.hides(batch)
                start = one.offset
                one.offset = max(start, batch.next_offset)
                if not hides and start < one.offset and batch.base_offset < one.end:
                    yield FetchedBatch(one.tp, batch, start, one.end)
                if one.is_done:
                    return


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
