"""`format("aioprod")`: what PySpark calls on a data source, by PySpark's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from aioprod.spark.options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import DataSourceStreamWriter

__all__ = ["AioprodSource", "each_batch"]


class AioprodSource(DataSource):
    """Kafka topics as a source and a sink of Spark, for batches and streams.

    Found by Spark itself where aioprod is installed (module `pyspark_aioprod`), else by
    `spark.dataSource.register(AioprodSource)`. Options and columns are listed in docs/spark.md. The methods, and the
    names of their parameters, are those that Spark calls.
    """

    @classmethod
    def name(cls) -> str:
        return "aioprod"

    def __repr__(self) -> str:
        """Without the values of options: some may be secrets."""
        return f"AioprodSource({', '.join(self.options)})"

    # Each package below is imported when it is used: a writer needs no reader, and either imports much.

    def schema(self) -> StructType:
        from aioprod.spark.source.reader import schema

        return schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from aioprod.spark.source.reader import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from aioprod.spark.source.reader import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from aioprod.spark.sink.writer import batch_writer

        return batch_writer(SinkOptions.from_spark(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from aioprod.spark.sink.writer import stream_writer

        made: DataSourceStreamWriter = stream_writer(SinkOptions.from_spark(self.options), schema, overwrite)
        return made


def each_batch(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """What `df.writeStream.foreachBatch` takes to write with these options, at least once; for PySpark 4.0."""

    def write(df: DataFrame, batch_id: int) -> None:
        df.write.format(AioprodSource.name()).options(**options).mode("append").save()

    return write
