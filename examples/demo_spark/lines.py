"""The demo's rows: lines of source files, in Parquet, and which of them are definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from examples.demo.compare import Digests
from examples.demo.source import Source

__all__ = ["COLUMNS", "DEFINITION", "definitions", "digests", "write_parquet"]

COLUMNS: Final = ("key", "value")
DEFINITION: Final = r"^\s*(async def|def|class) "
FILES: Final = 8


def write_parquet(sources: Iterable[Source], folder: Path) -> int:
    """Write each line as a row (path, number, line) and return how many; all of a source are in one of the files."""
    folder.mkdir(parents=True)
    parts: list[list[tuple[bytes, int, bytes]]] = [[] for _ in range(FILES)]
    for index, source in enumerate(sources):
        parts[index % FILES] += ((source.key, number, line) for number, line in enumerate(source.lines()))
    schema = pa.schema({"path": pa.binary(), "number": pa.int32(), "line": pa.binary()})
    for index, rows in enumerate(parts):
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=schema)
        pyarrow.parquet.write_table(table, folder / f"{index}.parquet")
    return sum(map(len, parts))


def definitions(line: bytes) -> bool:
    """Whether a line is what the stream keeps."""
    return re.search(DEFINITION, line.decode(errors="replace")) is not None


def digests(folder: Path, keep: Callable[[bytes], bool] = lambda line: True) -> Digests:
    """What has to be in a topic."""
    found = Digests()
    for file in sorted(folder.glob("*.parquet")):
        table = pyarrow.parquet.read_table(file)
        for path, line in zip(table["path"].to_pylist(), table["line"].to_pylist(), strict=True):
            if keep(line):
                found[path].add(line)
    return found
