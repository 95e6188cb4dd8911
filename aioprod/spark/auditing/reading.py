"""The rows of a topic that an audit looks at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aioprod.reader import Reader
from aioprod.spark import worker
from aioprod.spark.loading.cluster import TopicState
from aioprod.spark.manifest import Manifest
from aioprod.spark.options import KafkaSettings
from aioprod.types import ConsumedRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["rows_from", "starts_of"]

_BATCH_ROWS: Final = 10_000


def starts_of(manifest: Manifest, state: TopicState, topic: str) -> tuple[int, ...]:
    """From which offset on a topic is compared with a manifest, by partition.

    In the topic that was loaded: from where the run began, so that what was there before does not count. Any other
    topic, such as a copy of it, has offsets of its own and is compared as a whole.
    """
    is_other_cluster = None not in (manifest.cluster_id, state.cluster_id) and manifest.cluster_id != state.cluster_id
    if topic != manifest.plan.topic or is_other_cluster:
        return state.starts
    starts = list(state.starts)
    promised = manifest.promised()
    for partition in range(min(len(starts), len(manifest.starts))):
        begun = manifest.starts[partition]
        if partition in promised:
            begun = min(begun, promised[partition].first)
        # Retention may have removed some since; a topic that was made anew may not have got that far.
        starts[partition] = max(starts[partition], min(begun, state.ends[partition]))
    return tuple(starts)


def rows_from(
    spark: SparkSession, kafka: KafkaSettings, topic: str, starts: tuple[int, ...], isolation: str
) -> DataFrame:
    """Partition, offset, key, hash and bytes of all rows from these offsets to the topic's present end."""
    places = spark.createDataFrame(list(enumerate(starts)), "partition int, start long")
    columns = "partition int, offset long, key binary, value binary"
    rows = places.repartition(len(starts), "partition").mapInArrow(_ReadTask(kafka, topic, isolation), columns)
    return rows.selectExpr(
        "partition",
        "offset",
        "key",
        "xxhash64(key, value) as hash",
        "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) as bytes",
    )


@dataclass(frozen=True)
class _ReadTask:
    """What reads some partitions in a task."""

    kafka: KafkaSettings
    topic: str
    isolation: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition, start in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield from self._read(partition, start)

    def _read(self, partition: int, start: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        config = self.kafka.session()
        options = {name: getattr(config, name) for name in config.explicit}
        reader = worker.run(_started(options, self.isolation))
        try:
            records = reader.read(self.topic, start={partition: start}, partitions=[partition])
            while some := worker.run(_next(records)):
                columns = zip(*((one.partition, one.offset, one.key, one.value) for one in some), strict=True)
                kinds = (pa.int32(), pa.int64(), pa.binary(), pa.binary())
                arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=["partition", "offset", "key", "value"])
        finally:
            worker.run(reader.close())


async def _started(options: dict[str, Any], isolation: str) -> Reader:
    reader = Reader(isolation=isolation, **options)
    await reader.start()
    return reader


async def _next(records: AsyncIterator[ConsumedRecord]) -> list[ConsumedRecord]:
    some: list[ConsumedRecord] = []
    async for record in records:
        some.append(record)
        if len(some) == _BATCH_ROWS:
            break
    return some
