"""Exactly once in streams by the data source, in a module of its own: its base class came with PySpark 4.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from aioprod.spark.transactions.sink import OnceWriter

__all__ = ["StreamWriter"]


class StreamWriter(OnceWriter, DataSourceStreamArrowWriter):
    """The object that writes and the one that commits are two: what one knows travels in the messages."""

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # called by this name
        self._sink.commit(messages)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # called by this name
        self._sink.abort(messages)
