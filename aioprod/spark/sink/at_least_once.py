"""At least once: rows of a data frame or of a stream become records."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from aioprod.spark import worker
from aioprod.spark.options import SinkOptions
from aioprod.spark.sink.columns import SinkColumns, sink_columns
from aioprod.spark.sink.rows import send_rows
from aioprod.spark.sink.written import Written, sums_by_partition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AtLeastOnce", "Delivered", "check_topic"]

_logger = logging.getLogger(__name__)


@dataclass
class Delivered(datasource.WriterCommitMessage):
    """What a task returns to the driver."""

    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class AtLeastOnce:
    """The sink of rows that may be written twice: by a task that is tried again, or a batch that is run again."""

    options: SinkOptions
    columns: SinkColumns

    @classmethod
    def of(cls, options: SinkOptions, schema: StructType) -> Self:
        """Check all that can be on the driver; raises ConfigError, UnknownTopicError and others of `check_topic`."""
        columns = sink_columns(schema, topic=options.topic, include_headers=options.include_headers)
        if options.topic is not None:
            check_topic(options)
        return cls(options, columns)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Delivered:
        """Send a task's rows and wait until each is acknowledged."""
        producer = worker.producer(self.options.kafka.producer())
        picked = map(self.columns.pick, batches)
        try:
            calls = send_rows(producer, picked, topic=self.options.topic)
            return Delivered(sums_by_partition(result for _, result in calls))
        except BaseException:
            # Whatever the error was: nothing waits for the rest of this task's rows any more.
            worker.forget(producer)
            raise

    def commit(self, messages: Sequence[Any], what: str) -> None:
        """Log how many rows the tasks have reported."""
        parts = [one for message in messages if message is not None for one in message.written]
        rows = sum(one.count for one in parts)
        places = len({(one.topic, one.partition) for one in parts})
        _logger.info("%s wrote %d rows to %d partitions in %d tasks.", what, rows, places, len(messages))

    def abort(self, messages: Sequence[Any], what: str) -> None:
        """Log that only some of the tasks came to their end."""
        done = sum(message is not None for message in messages)
        _logger.warning(
            "%s failed after %d of %d tasks: rows that were acknowledged stay in Kafka, and will be there again when "
            "it is repeated (at-least-once delivery).",
            what,
            done,
            len(messages),
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
