"""`LogLab`: raw requests in chosen versions to one broker, fake or real, about topics and logs."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar, cast

from aioprod.errors import ErrorCode
from aioprod.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from aioprod.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicResult
from aioprod.messages.delete_topics import DeleteTopicState
from aioprod.messages.fetch import FetchPartition, FetchTopic, PartitionData
from aioprod.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from aioprod.messages.metadata import MetadataRequestTopic, MetadataResponseTopic
from aioprod.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData
from aioprod.records import PREFIX, Compression, RecordBatchBuilder, parse_batches
from aioprod.wire.codec import decode
from aioprod.wire.frame import decode_response_header, encode_request
from aioprod.wire.schema import ZERO_UUID, Request, Response

ResponseT = TypeVar("ResponseT", bound=Response)

PATIENCE_S: Final = 30.0
"""The timeout of waits for a broker's state."""

NO_PRODUCER: Final = (-1, -1)
ALL_AT_ONCE: Final = 10_000_000


class Stored(NamedTuple):
    """The outcome of a batch."""

    error: ErrorCode | int
    offset: int


class Topic(NamedTuple):
    """A topic of a test."""

    name: str
    id: uuid.UUID


class Log(NamedTuple):
    """A fetched partition: high watermark, last stable offset, aborted transactions, and the values by offset."""

    end: int
    stable_end: int
    aborted: list[tuple[int, int]]
    values: dict[int, bytes | None]


def batch(
    producer: tuple[int, int] = NO_PRODUCER, sequence: int = -1, count: int = 1, *, transactional: bool = False
) -> bytes:
    """A batch of `count` records, whose values are their sequence numbers."""
    builder = RecordBatchBuilder(bytearray(PREFIX + 100 + 40 * count))
    for index in range(count):
        assert builder.append(int(time.time() * 1000), None, b"%d" % (sequence + index))
    producer_id, epoch = producer
    builder.seal(Compression.NONE, None, producer_id, epoch, sequence, transactional)
    return bytes(builder.wire(0, flexible=False)[8:])


@dataclass
class LogLab:
    """A connection to a broker. `level` is the transaction version of the test."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    level: int
    _unique: uuid.UUID = field(default_factory=uuid.uuid4)
    _names: int = 0

    def new_name(self, what: str) -> str:
        """A new name."""
        self._names += 1
        return f"{what}-{self._names}-{self._unique.hex[:12]}"

    async def request(self, request: Request[ResponseT], version: int) -> ResponseT:
        """Send a request in a version and return the answer."""
        self.writer.write(encode_request(request, version, 7, "lab"))
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size)
        kind = cast(type[ResponseT], request.RESPONSE)
        return decode(kind, version, decode_response_header(kind, version, frame)[1])

    @property
    def produce_version(self) -> int:
        return 12 if self.level == 2 else 11

    # --- topics

    async def topic(self, name: str = "", **config: str) -> Topic:
        """A new topic of one partition, which has a leader."""
        wanted = name or self.new_name("topic")
        async with asyncio.timeout(PATIENCE_S):
            # A deleted topic exists for a moment more.
            while (created := await self.create(wanted, config)).error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                await asyncio.sleep(0.01)
            assert created.error_code == 0, created
            topic = Topic(wanted, created.topic_id)
            # Metadata has a leader before that broker knows that it leads.
            while (await self._fetch(topic, isolation_level=0)).error_code:
                await asyncio.sleep(0.01)
        return topic

    async def create(
        self, name: str, config: Mapping[str, str] = MappingProxyType({}), *, partitions: int = 1, replicas: int = 1
    ) -> CreatableTopicResult:
        """CreateTopics."""
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
        row = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=tuple(settings),
        )
        return (await self.request(CreateTopicsRequest(topics=(row,), timeout_ms=30_000), 7)).topics[0]

    async def describe(
        self, name: str | None, topic_id: uuid.UUID = ZERO_UUID, *, may_create: bool = False
    ) -> MetadataResponseTopic:
        """The topic's row of Metadata."""
        row = MetadataRequestTopic(name=name, topic_id=topic_id)
        return (await self.request(MetadataRequest(topics=(row,), allow_auto_topic_creation=may_create), 12)).topics[0]

    async def delete(self, topic: Topic) -> None:
        """Delete a topic, and wait until Metadata does not have it."""
        wanted = DeleteTopicState(name=topic.name)
        await self.request(DeleteTopicsRequest(topics=(wanted,), timeout_ms=30_000), 6)
        async with asyncio.timeout(PATIENCE_S):
            while not (await self.describe(topic.name)).error_code:
                await asyncio.sleep(0.01)

    async def send(self, topic: Topic, data: bytes, *, version: int = 0, transactional_id: str | None = None) -> Stored:
        """Produce one batch."""
        row = await self.produce(topic, data, version=version, transactional_id=transactional_id)
        return Stored(ErrorCode.of(row.error_code), row.base_offset)

    async def produce(
        self,
        topic: Topic,
        data: bytes,
        *,
        version: int = 0,
        transactional_id: str | None = None,
        acks: int = -1,
        partition: int = 0,
    ) -> PartitionProduceResponse:
        """The response to a Produce of one batch."""
        part = PartitionProduceData(index=partition, records=data)
        sent = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=(part,))
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30_000, topic_data=(sent,))
        return (await self.request(request, version or self.produce_version)).responses[0].partition_responses[0]

    async def read(self, topic: Topic, *, committed: bool = True) -> Log:
        """Fetch a topic from the start."""
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
        return (await self.request(request, 12)).responses[0].partitions[0]

    async def offset_at(self, topic: Topic, timestamp: int, *, leader_epoch: int = -1) -> tuple[ErrorCode | int, int]:
        """ListOffsets: error and offset."""
        row = ListOffsetsPartition(partition_index=0, current_leader_epoch=leader_epoch, timestamp=timestamp)
        request = ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic.name, partitions=(row,)),))
        answer = (await self.request(request, 7)).topics[0].partitions[0]
        return ErrorCode.of(answer.error_code), answer.offset

    async def completed_log(self, topic: Topic) -> Log:
        """Fetch a topic from the start, once no transaction is open in it."""
        async with asyncio.timeout(PATIENCE_S):
            while (log := await self.read(topic)).stable_end < log.end:
                await asyncio.sleep(0.01)
        return log
