"""The rows of a topic that an audit looks at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aioprod.spark.datasource import AioprodSource
from aioprod.spark.digest import row_hash
from aioprod.spark.loading.cluster import TopicState
from aioprod.spark.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["rows_from", "starts_of"]


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
        # Retention may have removed some since; a topic that was created again may be shorter.
        starts[partition] = max(starts[partition], min(begun, state.ends[partition]))
    return tuple(starts)


def rows_from(
    spark: SparkSession, kafka: Mapping[str, str], topic: str, starts: tuple[int, ...], isolation: str
) -> DataFrame:
    """Partition, offset, key, hash and bytes of all rows from these offsets to the topic's present end.

    `kafka` are settings of a reader by Java's names. Raises ConfigError for those that it does not have.
    """
    places = {str(partition): start for partition, start in enumerate(starts)}
    spark.dataSource.register(AioprodSource)
    found = (
        spark.read.format(AioprodSource.name())
        .options(**{f"kafka.{name}": value for name, value in kafka.items()})
        .option("assign", json.dumps({topic: list(range(len(starts)))}))
        .option("startingOffsets", json.dumps({topic: places}))
        .option("endingOffsets", "latest")
        .option("isolation.level", isolation)
        .load()
    )
    return found.withColumn("hash", row_hash(found)).selectExpr(
        "partition",
        "offset",
        "key",
        "hash",
        "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) as bytes",
    )
