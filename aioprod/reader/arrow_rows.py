"""Records of fetched batches as record batches of Arrow, without a Python object for each record."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from aioprod.errors import ConfigError, UsageError
from aioprod.reader.fetching import FetchedBatch
from aioprod.reader.naming import Naming
from aioprod.records.table import RecordTable, TableReader
from aioprod.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ARROW_ROWS", "SIZE_MAX", "ArrowRows", "check_arrow", "opened"]

ARROW_ROWS: Final = 65_536
"""How many rows a record batch has, unless another number is given."""

SIZE_MAX: Final = 4 << 20
"""Bytes of keys, values and headers of a record batch, which one large record may exceed. The memory of a larger one is
fresh each time, and that costs a tenth of reading."""

_STEP: Final = 500
"""Records that are decoded between two looks at the clock: well under a millisecond, compiled."""

_ROWS_MAX: Final = 1 << 24


def check_arrow(name: str, rows: object, *, is_plain: bool) -> int:
    """The most rows of a record batch, given as the argument `name`.

    Raises ConfigError for another number than 1 to 2**24, and UsageError with deserializers, or without pyarrow.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= _ROWS_MAX:
        raise ConfigError(f"{name} is {rows!r:.60}: give the most rows of a batch, an int from 1 to {_ROWS_MAX}.")
    if not is_plain:
        raise UsageError(
            "Arrow columns hold the bytes of keys and values, and deserializers were given.",
            hint="Leave the deserializers out, or read records instead.",
        )
    _columns()
    return rows


def _columns() -> ModuleType:
    try:
        from aioprod.reader import arrow_columns
    except ImportError as error:
        raise UsageError("pyarrow is not installed.", hint="Install it: pip install 'aioprod[arrow]'.") from error
    return arrow_columns


def opened(fetched: FetchedBatch) -> TableReader:
    """The reader of a batch, which is decompressed here if it is not yet; raises CorruptRecordError."""
    with Naming(fetched.tp):
        return TableReader(fetched.batch, fetched.start, fetched.end)


class ArrowRows:
    """Collects records of any partitions until there are `rows_max`, or `SIZE_MAX` bytes."""

    def __init__(self, rows_max: int) -> None:
        self._table = RecordTable(rows_max=rows_max, size_max=SIZE_MAX, headers=True)
        self._runs: list[tuple[TopicPartition, int]] = []
        self._columns = _columns()
        self._repeated = self._columns.Repeated()

    @property
    def count(self) -> int:
        """The rows that it has."""
        return self._table.rows

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another record."""
        return self._table.is_full()

    def read(self, reader: TableReader, tp: TopicPartition) -> bool:
        """Read some records of a batch of a partition; True at the end of the batch.

        Raises CorruptRecordError, after which it has the records before the corrupt one.
        """
        before = self._table.rows
        try:
            with Naming(tp):
                return reader.read(self._table, _STEP)
        finally:
            if read := self._table.rows - before:
                self._add(tp, read)

    def _add(self, tp: TopicPartition, rows: int) -> None:
        if self._runs and self._runs[-1][0] == tp:
            rows += self._runs.pop()[1]
        self._runs.append((tp, rows))

    def clear(self) -> None:
        """Drop all rows."""
        if self._table.rows:
            self._table.take()
            self._runs.clear()

    def take(self) -> pa.RecordBatch:
        """The rows as a record batch with memory of its own; there are none here then."""
        import pyarrow as pa

        made = self._columns
        runs, self._runs = self._runs, []
        columns = self._table.take()
        topics: list[tuple[str, int]] = []
        for tp, rows in runs:
            if topics and topics[-1][0] == tp.topic:
                rows += topics.pop()[1]
            topics.append((tp.topic, rows))
        return pa.RecordBatch.from_pydict(
            {
                "key": made.bytes_array(columns.keys),
                "value": made.bytes_array(columns.values),
                "topic": self._in_runs(pa.string(), topics),
                "partition": self._in_runs(pa.int32(), [(tp.partition, rows) for tp, rows in runs]),
                "offset": made.plain_array(pa.int64(), columns.rows, columns.offsets),
                "timestamp": made.plain_array(made.MS, columns.rows, columns.timestamps),
                "headers": made.headers_array(columns),
            }
        )

    def _in_runs(self, kind: Any, runs: list[tuple[Any, int]]) -> Any:
        """A column of values that are repeated so many times each."""
        import pyarrow as pa

        arrays = [self._repeated.array(kind, value, rows) for value, rows in runs]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
