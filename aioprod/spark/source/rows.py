"""The source's part in a task: from fetched batches to Arrow batches, the next answer being fetched meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aioprod.errors import AioprodError, BrokerError, ConfigError, CorruptRecordError, ErrorCode, UnknownTopicError
from aioprod.reader import FetchedBatch, Reader
from aioprod.reader.arrow_columns import HEADERS, MS, Repeated, bytes_array, headers_array, plain_array
from aioprod.reader.naming import Naming
from aioprod.records.table import RecordColumns, RecordTable, TableReader
from aioprod.spark import worker
from aioprod.spark.offsets import lost
from aioprod.spark.source.options import SourceOptions
from aioprod.spark.source.ranges import Stretch
from aioprod.types import TopicPartition

__all__ = ["ROWS_MAX", "SIZE_MAX", "check_schema", "rows", "source_schema"]

ROWS_MAX: Final = 32_768
"""Rows of one Arrow batch: what a batch costs Spark besides its rows is small then."""

SIZE_MAX: Final = 4 << 20
"""Bytes of one Arrow batch, which one large record may exceed."""

CREATE_TIME: Final = 0
APPEND_TIME: Final = 1

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS: Final[dict[str, tuple[DataType, Any]]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", "UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (ArrayType(_HEADER), HEADERS),
}
"""The columns of the source, as Spark and as Arrow know them."""


def source_schema(options: SourceOptions) -> StructType:
    """The columns of Spark's own Kafka source."""
    names = [name for name in _COLUMNS if options.include_headers or name != "headers"]
    return StructType([StructField(name, _COLUMNS[name][0]) for name in names])


def check_schema(options: SourceOptions, schema: StructType) -> None:
    """A user may leave out columns, or name them in another order; raises ConfigError for anything else."""
    known = source_schema(options)
    for column in schema.fields:
        if column.name == "headers" and not options.include_headers:
            raise ConfigError("The schema has headers: set includeHeaders to true.")
        if column.name not in known.names:
            raise ConfigError(f"The schema has {column.name!r}: the source has {', '.join(known.names)}.")
        wanted = known[column.name].dataType
        if column.dataType != wanted:
            raise ConfigError(
                f"The schema has {column.name} as {column.dataType.simpleString()}: in the source it is "
                f"{wanted.simpleString()}."
            )


class _Layout:
    """Makes Arrow batches of the columns that the schema names, of one partition, without a copy where there is one."""

    def __init__(self, schema: StructType, tp: TopicPartition) -> None:
        self._tp = tp
        self._schema = pa.schema(
            [pa.field(column.name, _COLUMNS[column.name][1], column.nullable) for column in schema.fields]
        )
        self.has_headers = "headers" in schema.names
        self._repeated = Repeated()

    def batch(self, columns: RecordColumns, time_type: int) -> pa.RecordBatch:
        """One batch; raises CorruptRecordError for a timestamp that Spark has no room for."""
        made: dict[str, Callable[[], Any]] = {
            "key": lambda: bytes_array(columns.keys),
            "value": lambda: bytes_array(columns.values),
            "topic": lambda: self._same("topic", self._tp.topic, columns.rows),
            "partition": lambda: self._same("partition", self._tp.partition, columns.rows),
            "offset": lambda: plain_array(pa.int64(), columns.rows, columns.offsets),
            "timestamp": lambda: self._timestamps(columns),
            "timestampType": lambda: self._same("timestampType", time_type, columns.rows),
            "headers": lambda: headers_array(columns),
        }
        return pa.RecordBatch.from_arrays([made[name]() for name in self._schema.names], schema=self._schema)

    def _same(self, name: str, value: int | str, rows: int) -> Any:
        return self._repeated.array(_COLUMNS[name][1], value, rows)

    def _timestamps(self, columns: RecordColumns) -> Any:
        in_ms = plain_array(MS, columns.rows, columns.timestamps)
        try:
            return in_ms.cast(pa.timestamp("us", "UTC"))
        except pa.ArrowInvalid as error:
            raise CorruptRecordError(
                f"A record of {self._tp.topic}-{self._tp.partition} from offset {columns.offsets.cast('q')[0]} on has "
                f"a timestamp that Spark has no room for: {error}."
            ) from error


class _Ahead:
    """Answers of one stretch, the next being fetched while the last is worked on: at most two wait or are under way."""

    def __init__(self, reader: Reader, stretch: Stretch, start: int) -> None:
        self._reader = reader
        self._stretch = stretch
        self._start = start
        self._answers: asyncio.Queue[list[FetchedBatch] | Exception | None]
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None]

    async def start(self) -> None:
        """Begin to fetch, in this loop."""
        self._answers = asyncio.Queue(1)
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._fetch())

    async def _fetch(self) -> None:
        stretch = self._stretch
        try:
            fetched = self._reader.fetch(stretch.tp, self._start, stretch.end, topic_id=stretch.topic_id)
            async with aclosing(fetched) as answers:
                async for answer in answers:
                    await self._answers.put(answer)
            await self._answers.put(None)
        except Exception as error:
            await self._answers.put(error)

    async def next(self) -> list[FetchedBatch] | None:
        """The next answer, None after the last; raises what `Reader.fetch` raises."""
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """Stop fetching, without waiting: Spark may drop an abandoned task in any thread."""
        with suppress(RuntimeError):  # The loop has ended before.
            self._loop.call_soon_threadsafe(self._task.cancel)


def rows(options: SourceOptions, schema: StructType, stretch: Stretch) -> Iterator[pa.RecordBatch]:
    """The records of a stretch, in Arrow batches of about 4 MB.

    Raises BrokerError for records that are gone, unless failOnDataLoss is false, and what `Reader.fetch` raises.
    """
    layout = _Layout(schema, stretch.tp)
    table = RecordTable(rows_max=ROWS_MAX, size_max=SIZE_MAX, headers=layout.has_headers)
    time_type = CREATE_TIME
    for fetched in _fetched(options, stretch):
        wanted = APPEND_TIME if fetched.batch.is_log_append_time else CREATE_TIME
        if table.rows and wanted != time_type:
            yield layout.batch(table.take(), time_type)
        time_type = wanted
        with Naming(stretch.tp):
            reader = TableReader(fetched.batch, fetched.start, fetched.end)
            is_done = reader.read(table)
        while not is_done:
            yield layout.batch(table.take(), time_type)
            with Naming(stretch.tp):
                is_done = reader.read(table)
    if table.rows:
        yield layout.batch(table.take(), time_type)


def _fetched(options: SourceOptions, stretch: Stretch) -> Iterator[FetchedBatch]:
    """The batches of a stretch, over what was lost of it if that is allowed."""
    position = stretch.start
    while position < stretch.end:
        reader = _reader(options)
        ahead = _Ahead(reader, stretch, position)
        worker.run(ahead.start())
        try:
            while (answer := worker.run(ahead.next())) is not None:
                for fetched in answer:
                    yield fetched
                    position = max(position, fetched.batch.next_offset)
            return
        except (BrokerError, UnknownTopicError) as error:
            position = _after_loss(options, reader, replace(stretch, start=position), error, stretch.start)
        except AioprodError:
            worker.forget(reader)
            raise
        finally:
            ahead.stop()


def _reader(options: SourceOptions) -> Reader:
    """The one of this process with these settings."""
    return worker.connected(
        (Reader, options.isolation, options.kafka),
        lambda: Reader(config=options.reader_config()),
    )


def _after_loss(
    options: SourceOptions, reader: Reader, left: Stretch, error: BrokerError | UnknownTopicError, start: int
) -> int:
    """Where to continue after an error that means a loss, if that is allowed; else raise it.

    `left` is what was not read yet of a stretch that began at `start`.
    """
    name = f"{left.topic}-{left.partition}"
    if isinstance(error, UnknownTopicError) or error.code == ErrorCode.INCONSISTENT_TOPIC_ID:
        lost(
            options,
            f"Topic {left.topic!r} was deleted, or created again, before offsets {left.start} to {left.end - 1} of "
            f"{name} were read",
        )
        return left.end
    if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
        raise error
    first, end = (worker.run(reader.offsets(left.topic, at))[left.tp] for at in ("earliest", "latest"))
    if left.start > end:
        lost(options, f"Offset {left.start} of {name} can't be read: its log ends at {end} now")
        return left.end
    if not (left.from_earliest and left.start == start):
        lost(
            options,
            f"Offsets {left.start} to {min(first, left.end) - 1} of {name} are gone: its log begins at {first} now",
        )
    return max(left.start, first)
