"""A row for each record that was stored: its place and its digest, for a later audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aioprod.spark.sink.columns import SinkColumns
from aioprod.types import SendResult

__all__ = ["Receipts"]

_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("hash", pa.int64()),
        ("bytes", pa.int32()),
        ("attempt", pa.int64()),
    ]
)


class Receipts:
    """Notes a task's rows, all of one topic, while they are picked and sent, and gives them their offsets."""

    def __init__(self, columns: SinkColumns, hash_at: int, attempt: int) -> None:
        self._columns = columns
        self._hash_at = hash_at
        self._attempt = attempt
        self._noted: list[tuple[pa.RecordBatch, pa.Array]] = []

    def picked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The columns of the records."""
        for batch in batches:
            if batch.num_rows:
                picked = self._columns.pick(batch)
                self._noted.append((picked, batch.column(self._hash_at)))
                yield picked

    def of(self, result: SendResult) -> Iterator[pa.RecordBatch]:
        """The receipts of the next rows that were noted, as many as `result` is of; each of them was stored."""
        offsets = {
            tp.partition: np.concatenate([np.arange(one.start, one.stop) for one in ranges])
            for tp, ranges in result.offsets.items()
        }
        given = dict.fromkeys(offsets, 0)
        rows = 0
        while rows < result.count:
            batch, hashes = self._noted.pop(0)
            rows += batch.num_rows
            partitions = batch.column("partition").to_numpy(zero_copy_only=False)
            places = np.empty(batch.num_rows, np.int64)
            for partition in np.unique(partitions):
                here = partitions == partition
                begin, count = given[int(partition)], int(here.sum())
                # One producer wrote them, in this order, and the log keeps it.
                places[here] = offsets[int(partition)][begin : begin + count]
                given[int(partition)] = begin + count
            yield self._batch(batch, hashes, places)

    def _batch(self, batch: pa.RecordBatch, hashes: pa.Array, places: np.ndarray) -> pa.RecordBatch:
        key = batch.column("key").cast(pa.binary()) if "key" in self._columns else pa.nulls(batch.num_rows, pa.binary())
        value = batch.column("value").cast(pa.binary())
        size = pc.add(pc.fill_null(pc.binary_length(key), 0), pc.fill_null(pc.binary_length(value), 0))
        attempts = pa.array(np.full(batch.num_rows, self._attempt, np.int64))
        columns = [
            batch.column("partition").cast(pa.int32()),
            pa.array(places),
            key,
            hashes.cast(pa.int64()),
            size.cast(pa.int32()),
            attempts,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
