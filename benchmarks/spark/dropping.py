"""A sink in Python that drops its rows: what Spark itself takes to hand them to Python as Arrow data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DroppingSource"]


class DroppingSource(DataSource):
    """The data source `dropping`."""

    @classmethod
    def name(cls) -> str:
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer()


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: Sequence[Any]) -> None:
        """Nothing was written."""

    def abort(self, messages: Sequence[Any]) -> None:
        """Nothing was written."""
