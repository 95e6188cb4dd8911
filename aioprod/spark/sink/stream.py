"""The writer for streams, in a module of its own: its base class came with PySpark 4.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa

    from aioprod.spark.sink.writer import Sink

__all__ = ["StreamWriter"]


class StreamWriter(DataSourceStreamArrowWriter):
    """The object that writes and the one that commits are two: what one knows travels in the messages."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write(iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # called by this name
        self._sink.commit(messages, f"Micro-batch {batchId}")

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # called by this name
        self._sink.abort(messages, f"Micro-batch {batchId}")
