"""The writers that Spark calls, for batches and streams; whatever the delivery, the work is that of a `Sink`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from aioprod.errors import ConfigError, UsageError
from aioprod.spark.options import AT_LEAST_ONCE, EXACTLY_ONCE, SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchWriter", "Sink", "batch_writer", "stream_writer"]

_INSTEAD: Final = {
    AT_LEAST_ONCE: "df.writeStream.foreachBatch(aioprod.spark.each_batch(options)) does the same.",
    EXACTLY_ONCE: "aioprod.spark.exactly_once(df, ...) does the same, and better.",
}
"""What to use for a stream with PySpark 4.0, by delivery."""


class Sink(Protocol):
    """Where rows go, and with which delivery. Made on the driver, and pickled for the tasks with its writer.

    `what` names the job or the micro-batch in logs.
    """

    def write(self, batches: Iterator[pa.RecordBatch]) -> datasource.WriterCommitMessage:
        """Write a task's rows, in the task; the message reaches `commit` or `abort` on the driver."""
        ...

    def commit(self, messages: Sequence[Any], what: str) -> None:
        """All tasks succeeded."""
        ...

    def abort(self, messages: Sequence[Any], what: str) -> None:
        """Some tasks failed: those without a message have None."""
        ...


class BatchWriter(datasource.DataSourceArrowWriter):
    """Spark pickles it for the tasks and calls `commit` or `abort` of the same object."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> datasource.WriterCommitMessage:
        return self._sink.write(iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        self._sink.commit(messages, "The job")

    def abort(self, messages: Sequence[Any]) -> None:
        self._sink.abort(messages, "The job")


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> datasource.DataSourceArrowWriter:
    """What `df.write` writes with; raises ConfigError, UnknownTopicError and others for what can't work."""
    return BatchWriter(_sink(options, schema, overwrite, is_stream=False))


def stream_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> Any:
    """What `df.writeStream` writes with. Spark creates one for each micro-batch and another one to commit it.

    Raises what `batch_writer` raises, and UsageError where PySpark hands no Arrow data to streams (4.0).
    """
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise UsageError(
            "This PySpark (4.0) gives no Arrow data to streaming sinks: aioprod has no writeStream there.",
            hint=_INSTEAD[options.delivery],
        )
    from aioprod.spark.sink.stream import StreamWriter

    return StreamWriter(_sink(options, schema, overwrite, is_stream=True))


def _sink(options: SinkOptions, schema: StructType, overwrite: bool, *, is_stream: bool) -> Sink:
    if overwrite:
        raise ConfigError(
            "A Kafka topic can't be overwritten.", hint='Write with mode("append"), to another topic if need be.'
        )
    if options.delivery == EXACTLY_ONCE:
        from aioprod.spark.transactions.sink import ExactlyOnce

        return ExactlyOnce.of(options, schema, is_stream=is_stream)
    from aioprod.spark.sink.at_least_once import AtLeastOnce

    return AtLeastOnce.of(options, schema)
