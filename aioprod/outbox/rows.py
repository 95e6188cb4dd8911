"""From the rows of a table to the records of a relay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aioprod.errors import CorruptRecordError, InvalidRecordError
from aioprod.records.headers import decode_headers
from aioprod.relay.columns import ColumnRows
from aioprod.types import Headers

__all__ = ["BYTES_MAX", "OutboxLag", "columns_of"]

BYTES_MAX: Final = 8 * 1024 * 1024
"""What the rows of one read should have at most; the first one is read whatever it has."""


class OutboxLag(NamedTuple):
    """What waits in the table of an outbox."""

    records: int
    """How many rows are committed and not in Kafka yet."""
    oldest_age_s: float
    """The time since the oldest of them was put, 0.0 without one."""
    held_by: str | None = None
    """The transaction for whose end rows wait, in words; None where they wait for none."""


def columns_of(rows: Iterable[tuple[Any, ...]]) -> ColumnRows:
    """The records of rows up to `BYTES_MAX`; raises InvalidRecordError for headers that `put` did not write.

    A row has id, token, topic, partition, key, value, headers and timestamp.
    """
    columns = ColumnRows()
    size = 0
    for number, token, topic, partition, key, value, headers, timestamp in rows:
        size += len(topic) + len(key or b"") + len(value or b"") + len(headers or b"")
        if size > BYTES_MAX and columns.topics:
            break
        columns.topics.append(topic)
        columns.partitions.append(partition)
        columns.keys.append(key)
        columns.values.append(value)
        columns.headers.append(None if headers is None else _headers_of(number, headers))
        columns.timestamps.append(timestamp)
        columns.numbers.append(number)
        columns.names.append(b".%x" % token)
        columns.size = size
    return columns


def _headers_of(number: int, headers: bytes) -> Headers:
    try:
        return decode_headers(headers, 0, len(headers))
    except CorruptRecordError as error:
        raise InvalidRecordError(
            f"Row {number} of the outbox has headers that put() did not write: {error.message}",
            hint="Set them to NULL, or put the record again.",
        ) from error
