"""One broker, fake or real, that is asked in raw requests of chosen versions: what is there to learn of its answers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar, cast

from aioprod.errors import ErrorCode
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from aioprod.messages.create_topics import CreatableTopic, CreatableTopicConfig
from aioprod.messages.delete_topics import DeleteTopicState
from aioprod.messages.fetch import FetchPartition, FetchTopic, PartitionData
from aioprod.messages.metadata import MetadataRequestTopic
from aioprod.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from aioprod.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from aioprod.messages.produce import PartitionProduceData, TopicProduceData
from aioprod.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from aioprod.records import PREFIX, Compression, RecordBatchBuilder, parse_batches
from aioprod.wire.codec import decode
from aioprod.wire.frame import decode_response_header, encode_request
from aioprod.wire.schema import ZERO_UUID, Request, Response

ResponseT = TypeVar("ResponseT", bound=Response)

PATIENCE_S: Final = 30.0
"""After this long a broker will not come to where it is awaited."""

NOBODY: Final = (-1, -1)
ALL_AT_ONCE: Final = 10_000_000


class Stored(NamedTuple):
    """What became of a batch."""

    error: ErrorCode | int
    offset: int


class Answer(NamedTuple):
    """What the coordinator said, and who the producer is."""

    error: ErrorCode | int
    producer_id: int
    epoch: int

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


class Topic(NamedTuple):
    """A topic of a test."""

    name: str
    id: uuid.UUID


class Log(NamedTuple):
    """What a reader gets of a partition: its end and its stable end, aborted transactions, and the data in offsets."""

    end: int
    stable_end: int
    aborted: list[tuple[int, int]]
    values: dict[int, bytes | None]


def batch(
    producer: tuple[int, int] = NOBODY, sequence: int = -1, count: int = 1, *, transactional: bool = False
) -> bytes:
    """A batch of `count` records, whose values are their sequence numbers."""
    builder = RecordBatchBuilder(bytearray(PREFIX + 100 + 40 * count))
    for index in range(count):
        assert builder.append(int(time.time() * 1000), None, b"%d" % (sequence + index))
    producer_id, epoch = producer
    builder.seal(Compression.NONE, None, producer_id, epoch, sequence, transactional)
    return bytes(builder.wire(0, flexible=False)[8:])


@dataclass
class Lab:
    """A connection to the only broker. `level` is the version of the transaction protocol that the test is about."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    level: int
    _unique: uuid.UUID = field(default_factory=uuid.uuid4)
    _names: int = 0

    def new_name(self, what: str) -> str:
        """A name that nobody else uses."""
        self._names += 1
        return f"{what}-{self._names}-{self._unique.hex[:12]}"

    async def ask(self, request: Request[ResponseT], version: int) -> ResponseT:
        """Send a request in a version and return the answer."""
        self.writer.write(encode_request(request, version, 7, "lab"))
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size)
        kind = cast(type[ResponseT], request.RESPONSE)
        return decode(kind, version, decode_response_header(kind, version, frame)[1])

    # -- topics ------------------------------------------------------------------------------------------------------

    async def topic(self, name: str = "", **config: object) -> Topic:
        """A new topic of one partition, which has a leader."""
        wanted = name or self.new_name("topic")
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in config.items()]
        row = CreatableTopic(
            name=wanted, num_partitions=1, replication_factor=1, assignments=(), configs=tuple(settings)
        )
        async with asyncio.timeout(PATIENCE_S):
            while True:
                created = (await self.ask(CreateTopicsRequest(topics=(row,), timeout_ms=30_000), 7)).topics[0]
                # A topic that was just deleted is there for a moment more.
                if not name or created.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    break
            assert created.error_code == 0, created
            topic = Topic(wanted, created.topic_id)
            # Metadata names a leader before that knows of its office.
            while (await self._fetch(topic, isolation_level=0)).error_code:
                await asyncio.sleep(0.01)
        return topic

    async def describe(self, name: str | None, topic_id: uuid.UUID = ZERO_UUID) -> Any:
        """What Metadata says of a topic."""
        row = MetadataRequestTopic(name=name, topic_id=topic_id)
        return (await self.ask(MetadataRequest(topics=(row,), allow_auto_topic_creation=False), 12)).topics[0]

    async def delete(self, topic: Topic) -> None:
        """Delete a topic, and wait until nobody knows it."""
        wanted = DeleteTopicState(name=topic.name)
        await self.ask(DeleteTopicsRequest(topics=(wanted,), timeout_ms=30_000), 6)
        async with asyncio.timeout(PATIENCE_S):
            while not (await self.describe(topic.name)).error_code:
                await asyncio.sleep(0.01)

    async def send(self, topic: Topic, data: bytes, *, version: int = 0, transactional_id: str | None = None) -> Stored:
        """Produce one batch."""
        part = PartitionProduceData(index=0, records=data)
        sent = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=(part,))
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=(sent,))
        row = (await self.ask(request, version or self.produce_version)).responses[0].partition_responses[0]
        return Stored(ErrorCode.of(row.error_code), row.base_offset)

    async def read(self, topic: Topic, *, committed: bool = True) -> Log:
        """All of a topic."""
        part = await self._fetch(topic, isolation_level=int(committed))
        assert part.error_code == 0
        batches = [one for one in parse_batches(part.records or b"") if not one.is_control]
        values = {record.offset: record.value for one in batches for record in one.records()}
        aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
        return Log(part.high_watermark, part.last_stable_offset, aborted, values)

    async def _fetch(self, topic: Topic, *, isolation_level: int) -> PartitionData:
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=ALL_AT_ONCE)
        wanted = FetchTopic(topic=topic.name, partitions=(row,))
        request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation_level, topics=(wanted,))
        return (await self.ask(request, 12)).responses[0].partitions[0]

    async def settled(self, topic: Topic) -> Log:
        """All of a topic once no transaction is open in it."""
        async with asyncio.timeout(PATIENCE_S):
            while (log := await self.read(topic)).stable_end < log.end:
                await asyncio.sleep(0.01)
        return log

    # -- producers ---------------------------------------------------------------------------------------------------

    @property
    def produce_version(self) -> int:
        return 12 if self.level == 2 else 11

    async def init(
        self, transactional_id: str | None = None, producer: tuple[int, int] = NOBODY, *, timeout_ms: int = 60_000
    ) -> Answer:
        """InitProducerId, once."""
        producer_id, epoch = producer
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = await self.ask(request, 5 if self.level == 2 else 4)
        return Answer(ErrorCode.of(answer.error_code), answer.producer_id, answer.producer_epoch)

    async def init_at_last(self, transactional_id: str, **options: Any) -> Answer:
        """InitProducerId as often as it takes until nothing is being completed any more."""
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self.init(transactional_id, **options)).error == ErrorCode.CONCURRENT_TRANSACTIONS:
                await asyncio.sleep(0.01)
        return answer

    async def new_producer(self, **options: Any) -> tuple[str, tuple[int, int]]:
        """A transactional id that is new, and its producer."""
        transactional_id = self.new_name("transactional-id")
        answer = await self.init(transactional_id, **options)
        assert answer.error == 0
        return transactional_id, answer.producer

    async def add(self, transactional_id: str, producer: tuple[int, int], *names: str) -> Sequence[ErrorCode | int]:
        """AddPartitionsToTxn, the first partition of each topic; the error of each."""
        topics = [AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in names]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=tuple(topics),
        )
        rows = (await self.ask(request, 3)).results_by_topic_v3_and_below
        found = {row.name: row.results_by_partition[0].partition_error_code for row in rows}
        return [ErrorCode.of(found[name]) for name in names]

    async def write(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        topic: Topic,
        sequence: int,
        count: int = 1,
        *,
        added: bool = False,
    ) -> Stored:
        """Write a batch in a transaction, which its partition is added to first unless it was before."""
        if self.level == 1 and not added:
            (error,) = await self.add(transactional_id, producer, topic.name)
            if error != ErrorCode.NONE:
                return Stored(error, -1)
        data = batch(producer, sequence, count, transactional=True)
        return await self.send(topic, data, transactional_id=transactional_id)

    async def end(self, transactional_id: str, producer: tuple[int, int], *, commits: bool, version: int = 0) -> Answer:
        """EndTxn."""
        producer_id, epoch = producer
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commits
        )
        answer = await self.ask(request, version or (5 if self.level == 2 else 4))
        return Answer(ErrorCode.of(answer.error_code), answer.producer_id, answer.producer_epoch)

    # -- groups ------------------------------------------------------------------------------------------------------

    async def add_offsets(self, transactional_id: str, producer: tuple[int, int], group: str) -> ErrorCode | int:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
        )
        return ErrorCode.of((await self.ask(request, 3)).error_code)

    async def commit_in(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        group: str,
        topic: Topic,
        offset: int,
        *,
        generation: int = -1,
        member: str = "",
        metadata: str = "",
        version: int = 0,
    ) -> ErrorCode | int:
        """TxnOffsetCommit."""
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=generation,
            member_id=member,
            topics=(TxnOffsetCommitRequestTopic(name=topic.name, partitions=(row,)),),
        )
        answer = await self.ask(request, version or (5 if self.level == 2 else 4))
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    async def commit(
        self, group: str, topic: Topic, offset: int, *, generation: int = -1, member: str = "", metadata: str = ""
    ) -> ErrorCode | int:
        """OffsetCommit."""
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=(OffsetCommitRequestTopic(name=topic.name, partitions=(row,)),),
        )
        return ErrorCode.of((await self.ask(request, 8)).topics[0].partitions[0].error_code)

    async def committed(self, group: str, topic: Topic, *, stable: bool = False) -> tuple[ErrorCode | int, int]:
        """OffsetFetch: error and offset."""
        wanted = OffsetFetchRequestTopics(name=topic.name, partition_indexes=(0,))
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),), require_stable=stable
        )
        (answer,) = (await self.ask(request, 8)).groups
        assert answer.error_code == 0, answer
        row = answer.topics[0].partitions[0]
        return ErrorCode.of(row.error_code), row.committed_offset

    async def committed_at_last(self, group: str, topic: Topic) -> int:
        """What a group has committed once no transaction has anything to say about it."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self.committed(group, topic, stable=True))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                await asyncio.sleep(0.01)
        assert found[0] == 0
        return found[1]

    async def make_ready(self) -> None:
        """Wait until there are coordinators: a real broker makes their topics when it is asked for the first."""
        transactional_id, group = self.new_name("first"), self.new_name("group")
        async with asyncio.timeout(PATIENCE_S):
            for key_type, key in ((1, transactional_id), (0, group)):
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
                while (await self.ask(request, 4)).coordinators[0].error_code:
                    await asyncio.sleep(0.1)
            while (await self.init(transactional_id)).error:
                await asyncio.sleep(0.1)
            topic = await self.topic()
            while await self.commit(group, topic, 0):
                await asyncio.sleep(0.1)


@asynccontextmanager
async def connected_lab(address: tuple[str, int], level: int = 2) -> AsyncIterator[Lab]:
    """A lab at one broker of several, that asks nothing of its own."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Lab(reader, writer, level)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def open_lab(address: str, level: int) -> AsyncIterator[Lab]:
    """A lab at the only broker of a cluster, at `host:port`."""
    host, _, port = address.rpartition(":")
    async with connected_lab((host, int(port)), level) as lab:
        await lab.make_ready()
        yield lab
