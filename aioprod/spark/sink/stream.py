"""The sink's writer for streams, in a module of its own: its base class came with PySpark 4.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from aioprod.spark.sink.writer import Delivered, log_incomplete, log_written

if TYPE_CHECKING:
    import pyarrow as pa

    from aioprod.spark.sink.writer import Sink

__all__ = ["StreamWriter"]


class StreamWriter(DataSourceStreamArrowWriter):
    """The object that writes and the one that commits are two: what one knows travels in the messages."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        return self._sink.write(iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # called by this name
        log_written(f"Micro-batch {batchId}", messages)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # called by this name
        log_incomplete(f"Micro-batch {batchId}", messages)
