"""How a load's input is split into chunks: sets of files where it has enough of them, else sets of rows by a hash.

Whatever the input is, each of its rows is in exactly one chunk: the last one takes all that no other does.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aioprod.errors import ConfigError
from aioprod.spark.digest import row_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Chunks", "Inputs", "check_repeatable", "chunks_for", "counted", "inputs_of"]

_CHUNK_BYTES: Final = 256 * 2**20
"""So much of the input is a chunk if nothing is said: what is lost at most, and what one transaction holds."""

_BY_DEFAULT_AT_MOST: Final = 1000
_UNKNOWN_BYTES: Final = 2**50
"""What Spark says of inputs whose size it does not know is at least this."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files that a data frame is read from, with their sizes in bytes; empty where it is not (only) read."""

    files: Mapping[str, int]
    estimate: int | None = None
    """Of the bytes of all rows, where Spark has one."""
    is_divisible: bool = True
    """Whether each row comes from one of the files, and says which."""

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
        """The input of a chunk, as far as the input's own rows say."""
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
        return records.where(functions.pmod(row_hash(records), functions.lit(self.count)) == number)


def counted(records: DataFrame, chunks: Chunks) -> tuple[int | None, int | None]:
    """How many rows there are, and the exclusive or of their hashes; None where chunks are not chunks of rows."""
    from pyspark.sql import functions

    if chunks.sets is not None or chunks.count == 1:
        return None, None
    rows, hash_xor = records.agg(functions.count("*"), functions.bit_xor(row_hash(records))).collect()[0]
    return int(rows), int(hash_xor or 0)


def _spellings(files: Sequence[str]) -> list[str]:
    """Spark lists local files as file:///x, and calls them file:/x in its rows."""
    return [*files, *(f"file:/{name[8:]}" for name in files if name.startswith("file:///"))]


def chunks_for(inputs: Inputs, wanted: int | None) -> Chunks:
    """`wanted` chunks, or as many as the input's size needs. Raises ConfigError."""
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
        raise ConfigError(f"chunks is {wanted!r}: it must be a number from 1 on.")
    if inputs.files and inputs.is_divisible:
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
    tables = [str(hidden.apply(place).name()) for place in range(hidden.size())].count("_metadata")
    if tables == 0:
        return Inputs({}, estimate)
    # A row of a join is of several files; one of equal rows that is kept may be of any file.
    is_divisible = tables == 1 and all(node.nodeName() != "Deduplicate" for node in _nodes(plan))
    return Inputs({name: _size(df, name) for name in sorted(df.inputFiles())}, estimate, is_divisible)


def _size(df: DataFrame, name: str) -> int:
    spark: Any = df.sparkSession
    try:
        place = spark._jvm.org.apache.hadoop.fs.Path(spark._jvm.java.net.URI(name))
        system = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return int(system.getFileStatus(place).getLen())
    except Exception as error:
        raise ConfigError(f"The input file {name!r} can't be looked at: it may be gone.") from error


def check_repeatable(records: DataFrame, chunks: Chunks, texts: Iterable[str | None] = ()) -> None:
    """Raise ConfigError for keys and values that are others each time, where a chunk looks for its own among them all.

    `records` are no more than keys and values, and `texts` their expressions. Sets of files need less: there a row is
    in one chunk whatever it says, as long as which rows there are is no chance.
    """
    if chunks.count == 1:
        return
    why = _chance(records, texts, whole=chunks.sets is None)
    if why is not None:
        raise ConfigError(
            f"The input can't be split into {chunks.count} chunks: each reading of it gives other rows, {why}.",
            hint="Write it to files or a table first and load those, or give chunks=1.",
        )


def _chance(records: DataFrame, texts: Iterable[str | None], *, whole: bool) -> str | None:
    """What makes the rows others each time, as the end of a sentence; `whole`: what they hold counts too."""
    plan = records._jdf.queryExecution().analyzed()
    said = _whole_text(records, plan)
    cut = _CUT.search(said)
    if cut is not None:
        return f"for what {_CUT_NAMES[cut[1]]} leaves is chance"
    nodes = list(_nodes(plan))
    if any(node.nodeName() == "Deduplicate" and node.keys().size() < node.child().output().size() for node in nodes):
        return "for which of its rows dropDuplicates() keeps of some columns is chance"
    if not whole and not any(node.nodeName() == "Window" for node in nodes):
        return None
    if not plan.deterministic():
        return "as rand() or uuid() make them"
    clock = _clock(records, plan, said)
    if clock is None and any(_SPECIAL.search(text) for text in texts if text is not None):
        clock = "timestamp 'now'"
    if clock is not None:
        return f"as {clock} makes them"
    first = next((found[1] for line in _AGGREGATE.findall(said) if (found := _FIRST.search(line))), None)
    return None if first is None else f"for what {first}() of a group holds, or its order, is chance"


def _clock(records: DataFrame, plan: Any, said: str) -> str | None:
    """Functions of the current time in a plan. Spark calls these deterministic: they are constant within one job."""
    spark: Any = records.sparkSession
    if not plan.containsPattern(spark._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()):
        return None
    found = _CLOCK.search(said)
    return None if found is None else f"{found[1]}()"


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for place in range(children.size()):
        yield from _nodes(children.apply(place))


def _whole_text(df: DataFrame, plan: Any) -> str:
    """A plan as text, with all columns: Spark leaves out those from the 25th on."""
    settings = df.sparkSession.conf
    before = settings.get(_FIELDS, None)
    settings.set(_FIELDS, "1000000")
    try:
        return str(plan.toString())
    finally:
        if before is None:
            settings.unset(_FIELDS)
        else:
            settings.set(_FIELDS, before)


_FIELDS: Final = "spark.sql.debug.maxToStringFields"
_CUT_NAMES: Final = {
    "GlobalLimit": "limit()",
    "LocalLimit": "limit()",
    "Offset": "offset()",
    "Tail": "tail()",
    "Sample": "sample()",
}
_CUT: Final = re.compile(rf"^[^\w\n]*({'|'.join(_CUT_NAMES)})\b", re.MULTILINE)
_CLOCK: Final = re.compile(r"\b(current_timestamp|now|localtimestamp|current_date|current_time)\(")
_SPECIAL: Final = re.compile(r"\b(?:timestamp|date)\w*\s*['\"]\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_AGGREGATE: Final = re.compile(r"^[^\w\n]*Aggregate .*", re.MULTILINE)
_FIRST: Final = re.compile(r"(?<!sort_array\()(?<!array_sort\()\b(first|last|any_value|collect_list|collect_set)\(")
