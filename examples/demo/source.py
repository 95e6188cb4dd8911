"""What the demo sends: the lines of Python's standard library, or those of one file of yours."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Source", "count_lines", "one_file", "standard_library"]

_NOT_OURS = {"__pycache__", "dist-packages", "site-packages"}


@dataclass(frozen=True, slots=True)
class Source:
    """A file whose lines become records: `key` is the key of all of them."""

    key: bytes
    path: Path

    def lines(self) -> Iterator[bytes]:
        """The lines in order, without their line feeds, as the bytes that they are: any encoding will do."""
        with self.path.open("rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")


def standard_library(folder: Path | None = None) -> list[Source]:
    """Every Python file of the standard library (or `folder`) by its path in there; no installed packages."""
    root = Path(sysconfig.get_path("stdlib")) if folder is None else folder
    paths = (path.relative_to(root) for path in sorted(root.rglob("*.py")))
    return [Source(path.as_posix().encode(), root / path) for path in paths if _NOT_OURS.isdisjoint(path.parts)]


def one_file(path: Path) -> list[Source]:
    """One file, by its name; raises OSError when it can't be read."""
    with path.open("rb"):
        return [Source(path.name.encode(), path)]


def count_lines(sources: Iterable[Source]) -> int:
    """How many records these sources make."""
    return sum(1 for source in sources for _ in source.lines())
