"""The source: topics as data frames, `spark.read.format("aioprod")`; streams are next door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from aioprod.errors import ConfigError
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.spark.offsets import Cluster, lost
from aioprod.spark.source.options import Limit, SourceOptions
from aioprod.spark.source.ranges import Stretch, split_stretches
from aioprod.spark.source.rows import check_schema, rows, source_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["batch_reader", "schema", "stream_reader"]

_EARLIEST: Final = Limit("startingOffsets", EARLIEST)
_LATEST: Final = Limit("endingOffsets", LATEST)


def schema(options: Mapping[str, str]) -> StructType:
    """The columns that a source with these options has; raises ConfigError."""
    return source_schema(SourceOptions.from_spark(options))


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader of a batch, with the columns of `schema`; raises ConfigError."""
    found = SourceOptions.from_spark(options).for_batch()
    check_schema(found, schema)
    return _BatchReader(found, schema)


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """The reader of a stream, with the columns of `schema`; raises ConfigError."""
    from aioprod.spark.source.stream import StreamReader

    found = SourceOptions.from_spark(options).for_stream()
    check_schema(found, schema)
    return StreamReader(found, schema)


class _BatchReader(DataSourceReader):
    """`partitions` is called on the driver, `read` in the tasks, of a copy."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[Stretch]:
        """What each task is to read. Raises UnknownTopicError, ConfigError for limits that the topics don't have, and
        BrokerError for offsets that are gone."""
        options = self._options
        cluster = Cluster(options)
        found = cluster.partitions()
        if not found.of:
            raise ConfigError(f"No topic matches the subscribePattern {options.topics.pattern!r}.")
        start, end = options.start or _EARLIEST, options.end or _LATEST
        starts, ends = cluster.resolve(found.of, start), cluster.resolve(found.of, end)
        first, latest = cluster.earliest(found.of), cluster.latest(found.of)
        stretches = []
        for tp in found.of:
            stretch = Stretch(*tp, starts[tp], ends[tp], found.ids.get(tp.topic), start.has(tp, EARLIEST))
            if stretch.start > stretch.end and not stretch.from_earliest:
                raise ConfigError(
                    f"{tp.topic}-{tp.partition} would be read from offset {stretch.start} ({start.option}) to "
                    f"{stretch.end} ({end.option}): it begins after its end."
                )
            stretches.append(_what_is_there(options, stretch, first[tp], latest[tp]))
        return split_stretches(
            stretches, min_partitions=options.min_partitions, records_per_partition=options.records_per_partition
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one of `partitions`; Spark calls this with no partition where there are none."""
        return rows(self._options, self._schema, partition) if isinstance(partition, Stretch) else iter(())


def _what_is_there(options: SourceOptions, wanted: Stretch, first: int, latest: int) -> Stretch:
    """What a log from offset `first` to `latest` has of a stretch; raises BrokerError for what is gone, as `lost`."""
    name = f"{wanted.topic}-{wanted.partition}"
    if wanted.start > latest:
        lost(options, f"{name} can't be read from offset {wanted.start} on: its log ends at {latest}")
    elif wanted.end > latest:
        lost(options, f"{name} can't be read up to offset {wanted.end}: its log ends at {latest}")
    elif wanted.start < min(first, wanted.end) and not wanted.from_earliest:
        last = min(first, wanted.end) - 1
        lost(options, f"Offsets {wanted.start} to {last} of {name} are gone: its log begins at {first}")
    return replace(wanted, start=max(wanted.start, first), end=min(wanted.end, latest))
