"""A few numbers for many rows of a partition, which show whether other rows are the same, in the same order.

A row's hash is that of `row_hash`. Of the rows of a partition, by offset, there are kept: how many, their
bytes, the exclusive or and the sum of their hashes, and the sum of hash times rank, which is another one after two rows
changed places. All of it is taken mod 2**64. Digests of rows that follow each other can be joined, so that tasks need
neither all rows of a partition nor to sort them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

from aioprod.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["Digest", "digests", "joined", "parts", "row_hash", "total"]

_MASK: Final = 2**64 - 1
_COLUMNS: Final = (
    "partition int, count long, bytes long, hash_xor long, hash_sum long, hash_ranked long, first long, last long"
)


@dataclass(frozen=True, slots=True)
class Digest:
    """Of some rows of one partition, in the order of their offsets; hashes are signed 64-bit numbers."""

    count: int
    bytes: int
    hash_xor: int
    hash_sum: int
    hash_ranked: int
    """The sum of each hash times how many rows stand before it."""
    first: int
    last: int

    def then(self, later: Digest) -> Digest:
        """The digest of these rows and of `later`, whose offsets are all higher."""
        return Digest(
            self.count + later.count,
            self.bytes + later.bytes,
            self.hash_xor ^ later.hash_xor,
            _signed(self.hash_sum + later.hash_sum),
            _signed(self.hash_ranked + later.hash_ranked + self.count * later.hash_sum),
            self.first,
            later.last,
        )

    def same_rows(self, other: Digest) -> bool:
        """Whether these are the same rows in the same order, at whatever offsets."""
        return self.rows == other.rows

    @property
    def rows(self) -> tuple[int, int, int, int, int]:
        """All that does not depend on where the rows are."""
        return self.count, self.bytes, self.hash_xor, self.hash_sum, self.hash_ranked

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: object) -> Self:
        """Raises ConfigError for what is not a digest."""
        names = tuple(cls.__dataclass_fields__)
        if not isinstance(given, dict) or any(type(given.get(name)) is not int for name in names):
            raise ConfigError(f"A manifest's digest must have the numbers {', '.join(names)}.")
        return cls(*(given[name] for name in names))


def row_hash(rows: DataFrame) -> Column:
    """Of a row's key, which may be missing, and its value. Spark's hash passes over what is null: without a word on
    the key, a row with key only would be the same as one with that for a value."""
    from pyspark.sql import functions

    has_key = "key" in {name.lower() for name in rows.columns}
    key = functions.col("key") if has_key else functions.lit(None).cast("binary")
    return functions.xxhash64(key.isNull(), key, functions.col("value"))


def _signed(number: int) -> int:
    number &= _MASK
    return number - 2**64 if number >= 2**63 else number


def joined(parts: Iterable[tuple[int, Digest]]) -> dict[int, Digest] | None:
    """The digest of each partition, of those of parts of it; None where parts overlap, so that no order is known."""
    whole: dict[int, Digest] = {}
    for partition, part in sorted(parts, key=lambda part: (part[0], part[1].first)):
        before = whole.get(partition)
        if before is not None and part.first <= before.last:
            return None
        whole[partition] = part if before is None else before.then(part)
    return whole


def parts(partitions: Any, offsets: Any, hashes: Any, sizes: Any) -> Iterator[tuple[int, Digest]]:
    """Digests of one task's rows, of numpy arrays, one for each run of rising offsets within a partition."""
    import numpy as np

    order = np.argsort(partitions, kind="stable")
    partitions, offsets, sizes = partitions[order], offsets[order], sizes[order]
    hashes = hashes[order].view(np.uint64)
    breaks = np.flatnonzero((partitions[1:] != partitions[:-1]) | (offsets[1:] <= offsets[:-1])) + 1
    edges = [0, *breaks.tolist(), len(partitions)]
    for begin, end in pairwise(edges):
        own = hashes[begin:end]
        yield (
            int(partitions[begin]),
            Digest(
                end - begin,
                int(sizes[begin:end].sum()),
                _signed(int(np.bitwise_xor.reduce(own))),
                _signed(int(own.sum())),
                _signed(int((own * np.arange(end - begin, dtype=np.uint64)).sum())),
                int(offsets[begin]),
                int(offsets[end - 1]),
            ),
        )


def _digest_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In each task: of columns partition, offset, hash and bytes, the digests of all that are in a row."""
    import pyarrow as pa

    open_ones: dict[int, Digest] = {}
    closed: list[tuple[int, Digest]] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        for partition, part in parts(*(batch.column(place).to_numpy(zero_copy_only=False) for place in range(4))):
            before = open_ones.get(partition)
            if before is not None and part.first <= before.last:
                closed.append((partition, before))
                before = None
            open_ones[partition] = part if before is None else before.then(part)
    closed.extend(open_ones.items())
    columns: list[list[int]] = [[partition for partition, _ in closed]]
    columns += [[getattr(digest, name) for _, digest in closed] for name in Digest.__dataclass_fields__]
    names = ["partition", *Digest.__dataclass_fields__]
    arrays = [pa.array(column, pa.int64() if place else pa.int32()) for place, column in enumerate(columns)]
    yield pa.RecordBatch.from_arrays(arrays, names=names)


def digests(rows: DataFrame) -> dict[int, Digest]:
    """The digest of each partition of a data frame with the columns partition int, offset, hash and bytes long.

    Nothing is sorted where tasks read rows by their offsets, as those that read Kafka and receipts do.
    """
    rows = rows.selectExpr("partition", "cast(offset as long)", "cast(hash as long)", "cast(bytes as long)")
    whole = joined(_collected(rows))
    if whole is None:
        whole = joined(_collected(rows.repartition("partition").sortWithinPartitions("partition", "offset")))
    if whole is None:
        raise ConfigError("Two rows have the same partition and offset: these are rows of more than one topic.")
    return whole


def _collected(rows: DataFrame) -> list[tuple[int, Digest]]:
    found = rows.mapInArrow(_digest_task, _COLUMNS).collect()
    return [(row[0], Digest(*row[1:])) for row in found]


def total(parts: Mapping[int, Digest]) -> tuple[int, int]:
    """Rows and bytes of all partitions."""
    return sum(part.count for part in parts.values()), sum(part.bytes for part in parts.values())
