"""Records of a member's fetched batches, gathered as rows of Arrow until they are returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod.group.fetch_buffer import FetchBuffer
from aioprod.group.open_batch import OpenBatch
from aioprod.reader.arrow_rows import ArrowRows, opened

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowGathering"]


class ArrowGathering:
    """Reads the batches of `buffer` into rows, up to `rows_max` of them.

    The batches stay in `buffer.gathering` until `take`: when a partition is paused or dropped before that, or the call
    is cancelled, the buffer has them all back, and the rows are read again.
    """

    def __init__(self, buffer: FetchBuffer, rows_max: int) -> None:
        self.rows_max = rows_max
        self._buffer = buffer
        self._rows = ArrowRows(rows_max)

    @property
    def count(self) -> int:
        """The rows gathered; none when the buffer has their batches back."""
        return self._rows.count if self._buffer.gathering else 0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another record."""
        return self.count > 0 and self._rows.is_full

    def read(self, batch: OpenBatch) -> None:
        """Read some records of the current batch, which is decompressed if it is large; raises CorruptRecordError."""
        buffer = self._buffer
        if not buffer.gathering:
            self._rows.clear()
        if batch.reader is None:
            batch.records = None
            batch.reader = opened(batch.to_read)
        if not buffer.gathering or buffer.gathering[-1] is not batch:
            buffer.gathering.append(batch)
        if self._rows.read(batch.reader, batch.tp):
            buffer.close_current()
            if not self._rows.count:
                buffer.gathering.clear()

    def complete(self) -> None:
        """The rows will be returned: the current batch continues after them."""
        self._buffer.take_rows()
        current = self._buffer.current
        if current is not None and current.reader is not None:
            current.offset = max(current.offset, current.reader.offset + 1)

    def take(self) -> pa.RecordBatch:
        """The rows, after `complete`."""
        return self._rows.take()
