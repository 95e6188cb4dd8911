"""Rows as columns: a source that has many records at once need not make an object of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from aioprod.types import Headers, ProducerRecord

__all__ = ["ColumnRows", "Row", "Rows"]

Row = tuple[ProducerRecord, bytes]
"""A record of a source and its position."""
Rows = Sequence[Row]
"""Records of a source and their positions, in order."""


class ColumnRows(Sequence[Row]):
    """Records and their positions, a list for each field. As a sequence it makes the row that it is indexed for."""

    __slots__ = ("headers", "keys", "names", "numbers", "partitions", "size", "timestamps", "topics", "values")

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.partitions: list[int | None] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers | None] = []
        self.timestamps: list[int] = []
        """Milliseconds since the epoch."""
        self.numbers: list[int] = []
        self.names: list[bytes] = []
        """What follows the number in each position."""
        self.size = 0
        """The bytes of all records, as the source has them."""

    def __len__(self) -> int:
        return len(self.topics)

    def position(self, index: int) -> bytes:
        """That of one of the records."""
        return b"%d" % self.numbers[index] + self.names[index]

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> Row: ...
        @overload
        def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return self.record(index), self.position(index)

    def record(self, index: int) -> ProducerRecord:
        """One of the records."""
        return ProducerRecord(
            self.topics[index],
            self.values[index],
            key=self.keys[index],
            partition=self.partitions[index],
            headers=self.headers[index],
            timestamp=self.timestamps[index],
        )

    def cut(self, count: int) -> None:
        """Keep so many records only, and of those that were added in part nothing."""
        columns: tuple[list[Any], ...] = (
            *(self.topics, self.partitions, self.keys, self.values),
            *(self.headers, self.timestamps, self.numbers, self.names),
        )
        for column in columns:
            del column[count:]
