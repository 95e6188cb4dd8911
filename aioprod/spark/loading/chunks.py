"""How a load's input is divided: into sets of files where it has enough of them, else by a hash of the record.

Whatever the input is, each of its rows is in exactly one chunk: the last one takes all that no other does.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Chunks", "Inputs", "check_repeatable", "divide", "inputs_of"]

_CHUNK_BYTES: Final = 256 * 2**20
"""So much of the input is a chunk if nothing is said: what is lost at most, and what one transaction holds."""

_BY_DEFAULT_AT_MOST: Final = 1000
_UNKNOWN_BYTES: Final = 2**50
"""Spark's guesses from here on are no guesses."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files that a data frame is read from, with their sizes in bytes; empty where it is not (only) read."""

    files: Mapping[str, int]
    estimate: int | None = None
    """Of the bytes of all rows, where Spark has one."""

    @property
    def digest(self) -> str | None:
        """A hash of their names and sizes."""
        if not self.files:
            return None
        lines = "".join(f"{size} {name}\n" for name, size in sorted(self.files.items()))
        return hashlib.sha256(lines.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Chunks:
    """`sets` are the files of each chunk but the last; None: chunks of rows."""

    count: int
    sets: tuple[tuple[str, ...], ...] | None

    @property
    def of(self) -> str:
        return "rows" if self.sets is None else "files"

    def before(self, df: DataFrame, number: int) -> DataFrame:
        """The input of a chunk, as far as it can be told of the input's own rows."""
        from pyspark.sql import functions

        if self.sets is None or self.count == 1:
            return df
        path = functions.col("_metadata.file_path")
        if number < self.count - 1:
            return df.where(path.isin(_spellings(self.sets[number])))
        others = _spellings([name for files in self.sets for name in files])
        is_other: Column = functions.coalesce(path.isin(others), functions.lit(False))
        return df.where(~is_other)

    def after(self, records: DataFrame, number: int) -> DataFrame:
        """The records of a chunk, of those that `before` led to."""
        from pyspark.sql import functions

        if self.sets is not None or self.count == 1:
            return records
        key = functions.col("key") if "key" in records.columns else functions.lit(None).cast("binary")
        row = functions.xxhash64(key, functions.col("value"))
        return records.where(functions.pmod(row, functions.lit(self.count)) == number)


def _spellings(files: Sequence[str]) -> list[str]:
    """Spark lists local files as file:///x, and calls them file:/x in its rows."""
    return [*files, *(f"file:/{name[8:]}" for name in files if name.startswith("file:///"))]


def divide(inputs: Inputs, wanted: int | None) -> Chunks:
    """`wanted` chunks, or as many as the input's size asks for. Raises ConfigError."""
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
        raise ConfigError(f"chunks is {wanted!r}: it must be a number from 1 on.")
    if inputs.files:
        by_size = max(1, min(-(-sum(inputs.files.values()) // _CHUNK_BYTES), _BY_DEFAULT_AT_MOST))
        count = min(by_size, len(inputs.files)) if wanted is None else wanted
        if count <= len(inputs.files):
            return Chunks(count, _sets(inputs.files, count))
        return Chunks(count, None)
    if wanted is None:
        wanted = 1 if inputs.estimate is None else max(1, min(-(-inputs.estimate // _CHUNK_BYTES), _BY_DEFAULT_AT_MOST))
    return Chunks(wanted, None)


def _sets(files: Mapping[str, int], count: int) -> tuple[tuple[str, ...], ...]:
    """All but the last of `count` sets of about the same size, the same ones for the same files."""
    heap: list[tuple[int, int]] = [(0, number) for number in range(count)]
    sets: list[list[str]] = [[] for _ in range(count)]
    for name, size in sorted(files.items(), key=lambda file: (-file[1], file[0])):
        taken, number = heapq.heappop(heap)
        sets[number].append(name)
        # Empty files count too, or all of them would be in one set.
        heapq.heappush(heap, (taken + size + 1, number))
    return tuple(tuple(sorted(names)) for names in sets[:-1])


def inputs_of(df: DataFrame) -> Inputs:
    """What Spark knows of where a data frame comes from; raises ConfigError for a file that is gone."""
    plan = df._jdf.queryExecution().analyzed()
    estimate: int | None = int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    if estimate is not None and estimate >= _UNKNOWN_BYTES:
        estimate = None
    hidden = plan.metadataOutput()
    if "_metadata" not in {str(hidden.apply(place).name()) for place in range(hidden.size())}:
        return Inputs({}, estimate)
    return Inputs({name: _size(df, name) for name in sorted(df.inputFiles())}, estimate)


def _size(df: DataFrame, name: str) -> int:
    spark: Any = df.sparkSession
    try:
        place = spark._jvm.org.apache.hadoop.fs.Path(spark._jvm.java.net.URI(name))
        system = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return int(system.getFileStatus(place).getLen())
    except Exception as error:
        raise ConfigError(f"The input file {name!r} can't be looked at: it may be gone.") from error


def check_repeatable(df: DataFrame, chunks: Chunks) -> None:
    """Raise ConfigError for rows that are others each time, where each chunk looks for its own among all of them."""
    if chunks.count == 1:
        return
    plan = df._jdf.queryExecution().analyzed()
    cut = _CUT.search(str(plan.toString()))
    if cut is not None or (chunks.sets is None and not plan.deterministic()):
        why = "as rand() or uuid() make them" if cut is None else f"for what {_CUT_NAMES[cut[1]]} leaves is chance"
        raise ConfigError(
            f"The input can't be divided into {chunks.count} chunks: its rows are others each time, {why}.",
            hint="Write it to files or a table first and load those, or give chunks=1.",
        )


_CUT_NAMES: Final = {"GlobalLimit": "limit()", "LocalLimit": "limit()", "Offset": "offset()", "Tail": "tail()"}
_CUT: Final = re.compile(r"^[^\w\n]*(GlobalLimit|LocalLimit|Offset|Tail)\b", re.MULTILINE)
