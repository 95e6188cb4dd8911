"""The reader: records of a topic as an asynchronous iterator, without a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from aioprod.calls.session import Session, SessionUser
from aioprod.errors import AioprodError
from aioprod.reader.arrow_rows import ARROW_ROWS, ArrowRows, check_arrow, opened
from aioprod.reader.bounds import Bound, Selection
from aioprod.reader.config import ReaderConfig
from aioprod.reader.deserializing import Deserializers
from aioprod.reader.fetching import FetchedBatch, answer_size_max, decompressed
from aioprod.reader.offsets import At, topic_offsets
from aioprod.reader.position import Position
from aioprod.reader.read_replicas import ReadReplicas
from aioprod.reader.responses import lists_of, responses
from aioprod.types import ConsumedRecord, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from aioprod.options import DeserializerOption, ReaderOptions

__all__ = ["SLICE_S", "Reader", "read"]

_RUN: Final = 1000
"""At most so many records of a list that were decoded together: all of them."""

SLICE_S: Final = 0.005
"""The longest time for which decoding records may block the event loop."""


class Reader(SessionUser):
    """Reads topics from one event loop; use it as `async with Reader("host:9092") as reader`.

    `options` are fields of `ReaderConfig` (Java's names in snake_case); they win over those of `config`, which may
    also be a dict with Java's names. `isolation_level` is read_uncommitted or read_committed: the latter leaves out the
    records of aborted transactions, and ends where the first open one begins. Deserializers may be objects, functions,
    classes or names: `aioprod.options` has the types. None: as `config` says, by default read_uncommitted and bytes.
    Raises ConfigError. Connects to no broker before `start()`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: ReaderConfig | Mapping[str, Any] | None = None,
        isolation_level: Literal["read_uncommitted", "read_committed"] | None = None,
        key_deserializer: DeserializerOption | None = None,
        value_deserializer: DeserializerOption | None = None,
        **options: Unpack[ReaderOptions],
    ) -> None:
        """The class says what the arguments are."""
        named = {
            "isolation_level": isolation_level,
            "key_deserializer": key_deserializer,
            "value_deserializer": value_deserializer,
        }
        given = {**options, **{name: value for name, value in named.items() if value is not None}}
        self.config = ReaderConfig.given(config, bootstrap_servers, given)
        self._deserializers = Deserializers(self.config)
        self._session = Session(self.config, "reader", frame_size_max=answer_size_max(self.config))
        self._replicas = ReadReplicas(self._session.cluster, self.config.metadata_max_age_ms / 1000)

    # --- life

    async def close(self) -> None:
        """Close all connections; iterators that have not ended raise UsageError from then on."""
        await super().close()
        self._deserializers.close()

    # --- reading

    def read(
        self, topic: str, *, start: Bound = None, end: Bound = None, partitions: Iterable[int] | None = None
    ) -> AsyncGenerator[ConsumedRecord, None]:
        """The records of a topic, in the order of their offsets within each partition.

        `start` and `end` are an offset for each partition (`{0: 17}`; others from their start, to their end), or a
        time for all: the first record that is not older. Records at `end` and later are left out, and those after the
        present end, which is looked up once, before the first record. `partitions` are those to read, by default all.

        Raises ConfigError and InvalidTopicError at once; while iterating UnknownTopicError, AuthorizationError,
        BrokerError (OFFSET_OUT_OF_RANGE: retention has removed the records), CorruptRecordError, SerializationError,
        and RequestTimedOutError after `default.api.timeout.ms` without progress of any partition. Close an iterator
        that is not read to its end (`contextlib.aclosing`).
        """
        return self._records(Selection.of(topic, start, end, partitions))

    def batches(
        self, topic: str, *, start: Bound = None, end: Bound = None, partitions: Iterable[int] | None = None
    ) -> AsyncGenerator[FetchedBatch, None]:
        """As `read`, but the undecoded record batches with those records."""
        return self._batches(Selection.of(topic, start, end, partitions))

    def read_arrow(
        self,
        topic: str,
        *,
        start: Bound = None,
        end: Bound = None,
        partitions: Iterable[int] | None = None,
        batch_rows: int = ARROW_ROWS,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """As `read`, but in record batches of pyarrow, without a Python object for each record.

        Columns: key and value (binary, nullable), topic (string), partition (int32), offset (int64), timestamp
        (timestamp[ms, UTC]) and headers (list<struct<key: string, value: binary>>, null for none). A batch has up to
        `batch_rows` rows, or up to 4 MiB of keys, values and headers unless its only record is larger, and may have
        records of several partitions. Only the last one is smaller. Records before an error are returned before it is
        raised.

        Raises what `read` raises but SerializationError; at once ConfigError for `batch_rows`, and UsageError for a
        reader with deserializers, or without pyarrow.
        """
        rows = check_arrow("batch_rows", batch_rows, is_plain=self._deserializers.is_plain)
        return self._arrow(Selection.of(topic, start, end, partitions), ArrowRows(rows))

    async def fetch(
        self, tp: TopicPartition, start: int, end: int, *, topic_id: UUID | None = None
    ) -> AsyncGenerator[list[FetchedBatch], None]:
        """As `batches`, but for one partition, response by response, and without looking up where its log starts and
        ends.

        It reaches `end`, or raises RequestTimedOutError. With `topic_id` it raises BrokerError (INCONSISTENT_TOPIC_ID)
        if the topic of that name has another id.
        """
        if topic_id is None:
            await self._session.partitions(tp.topic)
            topic_id = self._session.cluster().topic_id(tp.topic)
        position = Position(tp=tp, offset=start, end=end, topic_id=topic_id)
        async with aclosing(lists_of(self._session, self.config, self._replicas, position)) as found:
            async for batches in found:
                yield batches

    async def offsets(self, topic: str, at: At = "latest") -> dict[TopicPartition, int]:
        """The offset of each partition at its "earliest", its "latest", or at a time: its first record not older.

        Where all records are older that is the end. Raises ConfigError, and what `read` raises about topics.
        """
        return await topic_offsets(self._session, topic, at, self.config.isolation_level)

    async def _records(self, selection: Selection, *, owned: bool = False) -> AsyncGenerator[ConsumedRecord, None]:
        """`owned`: start this reader, and close it with the iterator."""
        is_plain = self._deserializers.is_plain
        clock = self._session.clock
        async with AsyncExitStack() as stack:
            if owned:
                await stack.enter_async_context(self)
            batches = await stack.enter_async_context(aclosing(self._batches(selection)))
            slice_end = clock() + SLICE_S
            async for fetched in batches:
                records = (await decompressed(fetched)).consumed()
                while some := records.some(_RUN):
                    for record in some:
                        if clock() >= slice_end:
                            await asyncio.sleep(0)
                            slice_end = clock() + SLICE_S
                        yield record if is_plain else await self._deserializers.applied(record)

    async def _arrow(self, selection: Selection, rows: ArrowRows) -> AsyncGenerator[pa.RecordBatch, None]:
        failure: AioprodError | None = None
        clock = self._session.clock
        slice_end = clock() + SLICE_S
        async with aclosing(self._batches(selection)) as batches:
            try:
                async for given in batches:
                    fetched = await decompressed(given)
                    reader = opened(fetched)
                    while not rows.read(reader, fetched.tp):
                        if rows.is_full:
                            yield rows.take()
                            slice_end = clock() + SLICE_S
                        if clock() >= slice_end:
                            await asyncio.sleep(0)
                            slice_end = clock() + SLICE_S
            except AioprodError as error:
                failure = error
        if rows.count:
            yield rows.take()
        if failure is not None:
            raise failure

    async def _batches(self, selection: Selection) -> AsyncGenerator[FetchedBatch, None]:
        session, topic = self._session, selection.topic
        partitions = await session.partitions(topic)
        # Offsets are looked up by the topic's name: they are those of this topic, or the first fetch will fail.
        topic_id = session.cluster().topic_id(topic)
        bounds = await selection.resolve(session, len(partitions), self.config.isolation_level)
        positions = [
            Position(tp=TopicPartition(topic, partition), offset=start, end=end, topic_id=topic_id)
            for partition, (start, end) in bounds.items()
        ]
        async with aclosing(responses(session, self.config, self._replicas, positions)) as answers:
            async for batches in answers:
                for fetched in batches:
                    yield fetched


def read(
    topic: str,
    *,
    bootstrap_servers: str | Iterable[str] | None = None,
    config: ReaderConfig | Mapping[str, Any] | None = None,
    start: Bound = None,
    end: Bound = None,
    partitions: Iterable[int] | None = None,
    isolation_level: Literal["read_uncommitted", "read_committed"] | None = None,
    key_deserializer: DeserializerOption | None = None,
    value_deserializer: DeserializerOption | None = None,
    **options: Unpack[ReaderOptions],
) -> AsyncGenerator[ConsumedRecord, None]:
    """Read a topic up to its present end: `Reader.read` with its own reader, which is closed with the iterator.

        async for record in read("orders", bootstrap_servers="localhost:9092"):
            ...

    Arguments and errors are those of `Reader` and `Reader.read`.
    """
    reader = Reader(
        bootstrap_servers,
        config=config,
        isolation_level=isolation_level,
        key_deserializer=key_deserializer,
        value_deserializer=value_deserializer,
        **options,
    )
    return reader._records(Selection.of(topic, start, end, partitions), owned=True)
