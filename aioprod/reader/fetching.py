"""Fetch requests, and the batches of their responses that a reader may see."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from aioprod.calls.leaders import Answer, LeaderRequests
from aioprod.cluster import Cluster
from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError
from aioprod.messages import FetchRequest, FetchResponse
from aioprod.messages.fetch import AbortedTransaction, FetchPartition, FetchTopic, ForgottenTopic, PartitionData
from aioprod.reader.config import ISOLATION_LEVELS, ReaderConfig
from aioprod.reader.consumed_records import ConsumedRecords
from aioprod.reader.fetch_session import NO_SESSION_EPOCH, FetchSession, Plan
from aioprod.reader.naming import Naming
from aioprod.reader.position import ENDLESS, Position
from aioprod.reader.read_replicas import ReadReplicas
from aioprod.records import Compression, ControlType, ParsedBatch, ParsedRecord, decompress, may_exceed, parse_batches
from aioprod.records.parser import DECOMPRESSED_SIZE_MAX
from aioprod.types import TopicPartition
from aioprod.wire.buffer import Buffer
from aioprod.wire.frame import FRAME_SIZE_MAX
from aioprod.wire.schema import ZERO_UUID

__all__ = [
    "FetchByName",
    "FetchedBatch",
    "Fetching",
    "answer_size_max",
    "decompressed",
]

_COMPRESSED_INLINE_MAX: Final = 128 * 1024
_INLINE_MAX: Final = 1024 * 1024
"""Bytes of a batch up to which it is decompressed on the event loop, as it is stored and as its records may become."""

_RESPONSE_OVERHEAD: Final = 1_000_000
"""Bytes for the other fields of a response: offsets and errors by partition, aborted transactions."""


def answer_size_max(config: ReaderConfig) -> int:
    """The size of the largest response, for the `frame_size_max` of a `Session` that fetches."""
    return max(FRAME_SIZE_MAX, config.fetch_max_bytes + _RESPONSE_OVERHEAD)


class FetchByName(FetchRequest):
    """A Fetch request in the versions with topic names, for topics without an id (KIP-516)."""

    __slots__ = ()

    VERSIONS = (4, 12)


class FetchedBatch(NamedTuple):
    """A batch of records, of which those from offset `start` up to, but not including, `end` are to be read.

    Its bytes are a view of the broker's response, which lives as long as one of its batches.
    """

    tp: TopicPartition
    batch: ParsedBatch
    start: int
    end: int

    @property
    def is_large(self) -> bool:
        """Whether it is decompressed in a worker thread."""
        batch = self.batch
        return batch.codec != Compression.NONE and (
            batch.size >= _COMPRESSED_INLINE_MAX or may_exceed(batch.codec, batch.payload, _INLINE_MAX)
        )

    def records(self) -> Iterator[ParsedRecord]:
        """The records from `start` to `end`; raises CorruptRecordError as `ParsedBatch.records` does."""
        with Naming(self.tp):
            for record in self.batch.records():
                if self.start <= record.offset < self.end:
                    yield record

    def consumed(self) -> ConsumedRecords:
        """The same records as `ConsumedRecord`s; some are decoded at a time."""
        return ConsumedRecords(self.tp, self.batch, self.start, self.end)


async def decompressed(fetched: FetchedBatch, size_max: int = DECOMPRESSED_SIZE_MAX) -> FetchedBatch:
    """The batch itself, or a large one decompressed in a worker thread.

    Raises CorruptRecordError, also where that takes more than `size_max` bytes.
    """
    if not fetched.is_large:
        return fetched
    batch = fetched.batch
    with Naming(fetched.tp):
        data = await asyncio.to_thread(decompress, batch.codec, batch.payload, min(batch.decompressed_max, size_max))
    return fetched._replace(batch=batch.unpacked(data))


class Fetching:
    """Builds Fetch requests for partitions, and reads the batches of their responses, and the replicas that they name.

    With `sessions` each broker has a fetch session (KIP-227), as suits a reader that stays: a broker has room for a
    thousand, and gives the room of those that have not been used for two minutes to others. `hides` leaves out what no
    reader sees.
    """

    def __init__(
        self, config: ReaderConfig, replicas: ReadReplicas, *, sessions: bool = False, hides: bool = True
    ) -> None:
        self._isolation_level = ISOLATION_LEVELS[config.isolation_level]
        self._config = config
        self._replicas = replicas
        self._hides = hides
        self._turns = 0
        self._sessions: defaultdict[int, FetchSession] | None = defaultdict(FetchSession) if sessions else None

    def request(self, positions: Sequence[Position], cluster: Cluster, node_id: int = -1) -> FetchRequest:
        """A request for partitions that are read from one broker, `node_id`.

        A full one begins with the partitions that had no records for longest, even if it then names a topic several
        times. In a session the broker itself has the partitions take turns.
        """
        if self._sessions is None:
            return self._request(Plan(0, NO_SESSION_EPOCH, positions, ()), positions, cluster)
        return self._request(self._sessions[node_id].plan(positions, cluster), positions, cluster)

    def _request(self, plan: Plan, positions: Sequence[Position], cluster: Cluster) -> FetchRequest:
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
                sorted(plan.named, key=lambda one: one.turn), key=lambda one: (one.tp.topic, one.topic_id)
            )
        ]
        kind = FetchRequest if all(one.topic_id is not None for one in positions) else FetchByName
        return kind(
            max_wait_ms=self._config.fetch_max_wait_ms if plan.is_complete else 0,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=self._isolation_level,
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=tuple(topics),
            forgotten_topics_data=_forgotten(plan.forgotten),
            rack_id=self._rack(positions),
        )

    def _rack(self, positions: Sequence[Position]) -> str:
        """The rack in which a leader may name a follower; none after a failure, so that it has the records itself.

        A leader continues to name a follower that has died, until the brokers notice.
        """
        rack = self._config.client_rack
        return "" if rack and any(one.failures for one in positions) else rack

    def accept(
        self, leaders: LeaderRequests[Position, FetchResponse], answer: Answer[Position, FetchResponse]
    ) -> Sequence[Position]:
        """The positions that the response is about. There are none if the broker rejected the session."""
        self._replicas.answered(answer.partitions, answer.received_at)
        if self._sessions is None:
            return answer.partitions
        session, response = self._sessions[answer.node_id], answer.response
        code = ErrorCode.of(response.error_code)
        if not session.accept(code, response.session_id):
            for one in answer.partitions:
                leaders.rejected(one, code)
            return ()
        if not session.is_partial or response.error_code:
            return answer.partitions
        rows = ((topic, row) for topic in response.responses for row in topic.partitions)
        found = (session.position(topic.topic, topic.topic_id, row.partition_index) for topic, row in rows)
        return [one for one in found if one is not None]

    def log_ends(self, positions: Sequence[Position], response: FetchResponse) -> dict[TopicPartition, int]:
        """The end of each partition for the isolation level: the last stable offset or the high watermark."""
        return {
            tp: row.last_stable_offset if self._isolation_level else row.high_watermark
            for tp, row in _rows(positions, response).items()
            if row.error_code == ErrorCode.NONE
        }

    def lost(self, node_id: int) -> None:
        """A request to this broker has no response."""
        self._replicas.lost(node_id)
        if self._sessions is not None:
            self._sessions[node_id].lost()

    def _is_early(self, answer: Answer[Position, FetchResponse]) -> bool:
        """Whether the answer came well before the time for which a broker without records holds it back."""
        is_held = self._sessions is None or self._sessions[answer.node_id].is_complete
        return is_held and answer.received_at - answer.sent_at < self._config.fetch_max_wait_ms / 2000

    def batches_of(
        self,
        leaders: LeaderRequests[Position, FetchResponse],
        answer: Answer[Position, FetchResponse],
        positions: Sequence[Position],
    ) -> Iterator[FetchedBatch]:
        """The batches of an answer about these positions; each moves its position.

        An answer that could have moved some, and moves none, has all partitions of the request fetched again after a
        backoff; those for which it names a follower are fetched from there at once. Raises what
        `LeaderRequests.rejected` and `parse_batches` raise.
        """
        response = answer.response
        rows = _rows(positions, response)
        has_records = False
        named: set[Position] = set()
        for one in positions:
            if one.is_done:
                continue
            row = rows.get(one.tp)
            code = ErrorCode.of(response.error_code if row is None else row.error_code)
            if code != ErrorCode.NONE:
                self._failed(leaders, one, code, answer.node_id)
            elif row is None:
                self._replicas.clear(one.tp)
                leaders.missing_in_response(one, self._peer(one, answer.node_id))
            elif row.preferred_read_replica >= 0 and not row.records:
                named.add(one)
                if not self._replicas.name(one.tp, row.preferred_read_replica, answer.node_id, answer.received_at):
                    what = f"broker {answer.node_id} names {row.preferred_read_replica}, which is no follower."
                    leaders.retry_later(one, ProtocolError(what), refresh=True)
            elif row.records:
                before = one.offset
                try:
                    yield from self._visible(one, row.records, row.aborted_transactions or ())
                except ProtocolError as error:
                    leaders.retry_later(one, error)
                    raise
                if one.offset > before:
                    self._turns += 1
                    one.turn = self._turns
                    has_records = True
                    leaders.succeeded(one)
        if has_records and not leaders.has_failures:
            return
        # A broker that names a follower does not wait for records of other partitions.
        is_early = self._is_early(answer) and not named
        for one in answer.partitions:
            if one.is_done or one.retry_at > answer.sent_at or one in named:
                # Nothing is left to fetch here, or it has failed above.
                continue
            row = rows.get(one.tp)
            # Others may have used up the size limit of the response: then it is fetched again at once.
            if not has_records and (is_early or one.end < ENDLESS or (row is not None and row.records)):
                self._replicas.clear(one.tp)
                leaders.retry_later(one, _no_records_error(one, row, self._peer(one, answer.node_id)))
            else:
                leaders.succeeded(one)

    def _failed(
        self, leaders: LeaderRequests[Position, FetchResponse], one: Position, code: ErrorCode | int, node_id: int
    ) -> None:
        """A broker answered with an error, which may be that of a follower alone: the leader gets the next request."""
        peer = self._peer(one, node_id)
        self._replicas.clear(one.tp)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A follower's answer, and it may be behind: the caller has left out the positions that the leader rejects.
            leaders.retry_later(one, BrokerError(f"{peer} answered OFFSET_OUT_OF_RANGE.", code=code), refresh=True)
        else:
            leaders.rejected(one, code, peer)

    def _peer(self, one: Position, node_id: int) -> str:
        return "its leader" if self._replicas.is_leader(one.tp, node_id) else f"broker {node_id}"

    def out_of_range(self, answer: Answer[Position, FetchResponse], positions: Iterable[Position]) -> list[Position]:
        """The positions that do not exist in the log: retention has removed them, or the log has not reached them.

        Only the leader's answer counts: it may have what a follower does not have yet.
        """
        rows = _rows(answer.partitions, answer.response)
        return [
            one
            for one in positions
            if one.tp in rows
            and rows[one.tp].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            and self._replicas.is_leader(one.tp, answer.node_id)
        ]

    def _visible(self, one: Position, records: Buffer, aborted: Iterable[AbortedTransaction]) -> Iterator[FetchedBatch]:
        hidden = _Hidden(aborted)
        with Naming(one.tp):
            for batch in parse_batches(records, verify_crc=self._config.check_crcs):
                hides = hidden.hides(batch)
                start = one.offset
                one.offset = max(start, batch.next_offset)
                if not (hides and self._hides) and start < one.offset and batch.base_offset < one.end:
                    yield FetchedBatch(one.tp, batch, start, one.end)
                if one.is_done:
                    return


def _forgotten(partitions: Sequence[tuple[TopicPartition, UUID]]) -> tuple[ForgottenTopic, ...]:
    by_topic: dict[tuple[str, UUID], list[int]] = {}
    for tp, topic_id in partitions:
        by_topic.setdefault((tp.topic, topic_id), []).append(tp.partition)
    return tuple(
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=tuple(indexes))
        for (topic, topic_id), indexes in by_topic.items()
    )


def _rows(positions: Sequence[Position], response: FetchResponse) -> dict[TopicPartition, PartitionData]:
    """The rows of a response by partition; up to version 12 it has topic names, from then on topic ids."""
    names = {one.topic_id: one.tp.topic for one in positions}
    return {
        TopicPartition(topic.topic or names.get(topic.topic_id, ""), row.partition_index): row
        for topic in response.responses
        for row in topic.partitions
    }


class _Hidden:
    """Recognizes batches that readers must not see: control batches, and under read_committed aborted transactions.

    A broker lists the aborted transactions for read_committed only. A transaction counts from its first offset until
    its producer's next abort marker (KIP-98).
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._producers: set[int] = set()

    def hides(self, batch: ParsedBatch) -> bool:
        """Whether the batch is hidden; called for each batch in order. Raises CorruptRecordError for a bad marker."""
        while self._to_come and self._to_come[-1].first_offset < batch.next_offset:
            self._producers.add(self._to_come.pop().producer_id)
        aborted = batch.is_transactional and batch.producer_id in self._producers
        if aborted and batch.control_type() == ControlType.ABORT:
            self._producers.discard(batch.producer_id)
        return aborted or batch.is_control


def _no_records_error(one: Position, row: PartitionData | None, peer: str) -> AioprodError:
    if row is None:
        return ProtocolError(f"{peer} answered at once, and has nothing for it.")
    up_to = f"to {one.end}" if one.end < ENDLESS else "on"
    return ProtocolError(
        f"{peer} has nothing from offset {one.offset} {up_to}, with a high watermark of {row.high_watermark} "
        f"and a last stable offset of {row.last_stable_offset}."
    )
