"""The tasks' part of a plan: where every key goes, under each partitioner, for each number of partitions.

A task is given each of its keys once, with how many rows and bytes it stands for, so that a key is hashed once for each
partitioner, however many rows have it and however many counts are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from aioprod.routing import partitions_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
    Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

__all__ = ["SCHEMA", "Fact", "Survey", "surveyed"]

_PARTITIONS_MAX: Final = 2**31 - 1

SCHEMA: Final = (
    "kind string, partitioner string, other string, partitions int, partition int, rows long, bytes long, keys long, "
    "key binary"
)
"""What a task answers: one row for each `Fact`."""


class Fact(NamedTuple):
    """What a sum is of; the tasks' sums for one fact are added.

    `total`: all. `load`: what `partitioner` puts into `partition` of `partitions`. `spread`: what it lets go anywhere.
    `growth`: what moves when `partitions` become as many as `partition` says. `switch`: what moves when `partitioner`
    is replaced by `other`. `hot`: one key, which is in the column of that name.
    """

    kind: str
    partitioner: str = ""
    other: str = ""
    partitions: int = 0
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Survey:
    """What to count: `counts` in ascending order; `spreading` are those of `partitioners` that ignore the key."""

    partitioners: tuple[str, ...]
    counts: tuple[int, ...]
    spreading: frozenset[str] = frozenset()
    hot: int = 20

    @property
    def common(self) -> int | None:
        """A number of partitions from whose indexes those of all counts follow, if there is one.

        Every partitioner takes its hash modulo the count, and this one is a multiple of every count.
        """
        multiple = lcm(*self.counts)
        return multiple if multiple <= _PARTITIONS_MAX else None

    @property
    def steps(self) -> list[tuple[int, int]]:
        """Each count and the next one."""
        return list(zip(self.counts, self.counts[1:], strict=False))


def surveyed(survey: Survey, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run in a task: batches with the columns `key` (each one once, null for no key), `rows` and `bytes`."""
    sums = _Sums()
    hottest: list[tuple[int, bytes | None, int]] = []
    for batch in batches:
        if batch.num_rows:
            _count(survey, batch, sums)
            hottest = _hottest(survey, batch, hottest)
    yield _answer(sums, hottest)


class _Sums:
    """Rows, bytes and keys by fact."""

    def __init__(self) -> None:
        self.of: dict[Fact, tuple[int, int, int]] = {}
        self.loads: dict[tuple[str, int], Floats] = {}

    def add(self, fact: Fact, rows: int, bytes_: int, keys: int) -> None:
        before = self.of.get(fact, (0, 0, 0))
        self.of[fact] = (before[0] + rows, before[1] + bytes_, before[2] + keys)

    def load(self, partitioner: str, count: int, more: Floats) -> None:
        """`more` has rows, bytes and keys of each partition."""
        before = self.loads.get((partitioner, count))
        self.loads[partitioner, count] = more if before is None else before + more


def _count(survey: Survey, batch: pa.RecordBatch, sums: _Sums) -> None:
    import numpy as np

    keys = batch.column("key")
    rows = np.asarray(batch.column("rows"), dtype=np.int64)
    bytes_ = np.asarray(batch.column("bytes"), dtype=np.int64)
    is_key = ~np.asarray(keys.is_null())

    def add(fact: Fact, chosen: Bools) -> None:
        sums.add(fact, int(rows[chosen].sum()), int(bytes_[chosen].sum()), int((chosen & is_key).sum()))

    add(Fact("total"), np.ones(len(keys), dtype=np.bool_))
    places: dict[str, tuple[Bools, Callable[[int], Ints]]] = {}
    for partitioner in survey.partitioners:
        if partitioner in survey.spreading:
            dictated = np.zeros(len(keys), dtype=np.bool_)
            places[partitioner] = dictated, lambda count: np.zeros(len(keys), dtype=np.int64)
        else:
            places[partitioner] = _places(survey, keys, partitioner)
            dictated, index = places[partitioner]
            weights = rows[dictated].astype(np.float64), bytes_[dictated].astype(np.float64), is_key[dictated] * 1.0
            for count in survey.counts:
                at = index(count)[dictated]
                # Sums of whole numbers in floats are exact up to 2**53.
                sums.load(partitioner, count, np.stack([np.bincount(at, each, count) for each in weights]))
            for smaller, larger in survey.steps:
                add(Fact("growth", partitioner, "", smaller, larger), dictated & (index(smaller) != index(larger)))
        add(Fact("spread", partitioner), ~dictated)
    for number, partitioner in enumerate(survey.partitioners):
        for other in survey.partitioners[number + 1 :]:
            (dictated, index), (also, elsewhere) = places[partitioner], places[other]
            for count in survey.counts:
                moves = (dictated != also) | (dictated & (index(count) != elsewhere(count)))
                add(Fact("switch", partitioner, other, count), moves)


def _places(survey: Survey, keys: pa.Array, partitioner: str) -> tuple[Bools, Callable[[int], Ints]]:
    """Which keys dictate a partition, and a function that gives the partitions of all of them for a count."""
    import numpy as np

    def found(count: int) -> tuple[Ints, Bools]:
        answer = partitions_of(keys, partitioner, count, start=None)
        indexes = np.frombuffer(answer.indexes, dtype=np.int32).astype(np.int64)
        if answer.present is None:
            return indexes, np.ones(len(indexes), dtype=np.bool_)
        bits = np.unpackbits(np.frombuffer(answer.present, dtype=np.uint8), count=len(indexes), bitorder="little")
        return indexes, bits.astype(np.bool_)

    common = survey.common
    if common is None:
        each = {count: found(count) for count in survey.counts}
        return each[survey.counts[0]][1], lambda count: each[count][0]
    base, dictated = found(common)
    modulo = {count: base % count for count in survey.counts}
    return dictated, modulo.__getitem__


def _hottest(
    survey: Survey, batch: pa.RecordBatch, so_far: list[tuple[int, bytes | None, int]]
) -> list[tuple[int, bytes | None, int]]:
    """The keys with most rows of those so far and the batch's; no key counts as one."""
    import numpy as np

    rows = np.asarray(batch.column("rows"), dtype=np.int64)
    few = min(survey.hot, len(rows))
    places: Sequence[int] = np.argpartition(rows, len(rows) - few)[len(rows) - few :].tolist()
    taken = batch.take(places)
    merged = so_far + list(zip(*(taken.column(name).to_pylist() for name in ("rows", "key", "bytes")), strict=True))
    return sorted(merged, key=lambda each: (-each[0], each[1] or b""))[: survey.hot]


def _answer(sums: _Sums, hottest: Iterable[tuple[int, bytes | None, int]]) -> pa.RecordBatch:
    import pyarrow as pa

    for (partitioner, count), (rows, bytes_, keys) in sums.loads.items():
        for partition in range(count):
            values = int(rows[partition]), int(bytes_[partition]), int(keys[partition])
            if any(values):
                sums.add(Fact("load", partitioner, "", count, partition), *values)
    results: list[tuple[Any, ...]] = [(*fact, *values, None) for fact, values in sums.of.items()]
    results += [(*Fact("hot"), rows, bytes_, 1, key) for rows, key, bytes_ in hottest]
    types = [pa.string()] * 3 + [pa.int32()] * 2 + [pa.int64()] * 3 + [pa.binary()]
    names = [field.split()[0] for field in SCHEMA.split(", ")]
    columns = list(zip(*results, strict=True)) or [()] * len(names)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)], names=names
    )


def task(survey: Survey) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark sends to its workers."""
    return partial(surveyed, survey)
