"""The rows of Arrow batches that were read, as records."""

from __future__ import annotations

import pyarrow as pa

from aioprod.types import ConsumedRecord

__all__ = ["records_of"]

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)


def records_of(*batches: pa.RecordBatch) -> list[ConsumedRecord]:
    """The rows as records."""
    found = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == SCHEMA
        times = batch["timestamp"].cast(pa.int64()).to_pylist()
        for row, time in zip(batch.drop_columns("timestamp").to_pylist(), times, strict=True):
            headers = tuple((one["key"], one["value"]) for one in row.pop("headers") or ())
            found.append(ConsumedRecord(**row, headers=headers, timestamp=time))
    return found
