"""The sink: rows of a data frame or of a stream become records, at least once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from aioprod.errors import ConfigError, UsageError
from aioprod.spark import worker
from aioprod.spark.options import SinkOptions
from aioprod.spark.sink.columns import SinkColumns, sink_columns
from aioprod.spark.sink.rows import sent
from aioprod.spark.sink.written import Written, written

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Delivered", "Sink", "batch_writer", "check_topic", "log_incomplete", "log_written", "stream_writer"]

_logger = logging.getLogger(__name__)


@dataclass
class Delivered(datasource.WriterCommitMessage):
    """What a task returns to the driver."""

    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """What every task has to know; made, and all that can be is checked, on the driver."""

    options: SinkOptions
    columns: SinkColumns

    def write(self, batches: Iterator[pa.RecordBatch]) -> Delivered:
        """Send a task's rows and wait until each is acknowledged."""
        producer = worker.producer(self.options.kafka.producer())
        picked = map(self.columns.pick, batches)
        try:
            return Delivered(written(result for _, result in sent(producer, picked, topic=self.options.topic)))
        except BaseException:
            # Whatever the error was: nothing waits for the rest of this task's rows any more.
            worker.forget(producer)
            raise


def _sink(options: SinkOptions, schema: StructType, overwrite: bool) -> Sink:
    check_mode(overwrite)
    columns = sink_columns(schema, topic=options.topic, include_headers=options.include_headers)
    if options.topic is not None:
        check_topic(options)
    return Sink(options, columns)


def check_mode(overwrite: bool) -> None:
    """Raise ConfigError where Spark's mode is overwrite."""
    if overwrite:
        raise ConfigError(
            "A Kafka topic can't be overwritten.", hint='Write with mode("append"), to another topic if need be.'
        )


def check_topic(options: SinkOptions) -> int:
    """The number of partitions of the topic for all rows, which brokers create where they create topics for producers.

    Raises UnknownTopicError, AuthorizationError and what `Producer.partitions_for` raises besides.
    """
    assert options.topic is not None
    return worker.run(_partition_count(options, options.topic))


async def _partition_count(options: SinkOptions, topic: str) -> int:
    from aioprod.producer import Producer

    # Without a producer id, and so without the right to get one, which transactions don't need.
    async with Producer(**options.kafka.producer() | {"enable_idempotence": False}) as producer:
        return len(await producer.partitions_for(topic))


class _BatchWriter(datasource.DataSourceArrowWriter):
    """Spark pickles it for the tasks and calls `commit` or `abort` of the same object."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        return self._sink.write(iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        log_written("The job", messages)

    def abort(self, messages: Sequence[Any]) -> None:
        log_incomplete("The job", messages)


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> datasource.DataSourceArrowWriter:
    """What `df.write` writes with; raises ConfigError, UnknownTopicError and others for what can't work."""
    return _BatchWriter(_sink(options, schema, overwrite))


def stream_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> Any:
    """What `df.writeStream` writes with. Spark creates one for each micro-batch and another one to commit it.

    Raises what `batch_writer` raises, and UsageError where PySpark hands no Arrow data to streams (4.0).
    """
    base = getattr(datasource, "DataSourceStreamArrowWriter", None)
    if base is None:
        raise UsageError(
            "This PySpark (4.0) gives no Arrow data to streaming sinks: aioprod has no writeStream there.",
            hint="df.writeStream.foreachBatch(aioprod.spark.each_batch(options)) does the same.",
        )
    from aioprod.spark.sink.stream import StreamWriter

    return StreamWriter(_sink(options, schema, overwrite))


def log_written(what: str, messages: Sequence[Any]) -> None:
    """Log how many rows the tasks have reported."""
    parts = [one for message in messages if message is not None for one in message.written]
    rows = sum(one.count for one in parts)
    places = len({(one.topic, one.partition) for one in parts})
    _logger.info("%s wrote %d rows to %d partitions in %d tasks.", what, rows, places, len(messages))


def log_incomplete(what: str, messages: Sequence[Any]) -> None:
    """Log that only some of the tasks came to their end; the others have None for a message."""
    done = sum(message is not None for message in messages)
    _logger.warning(
        "%s failed after %d of %d tasks: rows that were acknowledged stay in Kafka, and will be there again when it is "
        "repeated (at-least-once delivery).",
        what,
        done,
        len(messages),
    )
