"""How far a load is: a bar on a terminal that can redraw, else a line for each chunk. Both go to stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

from aioprod._words import bytes_of
from aioprod.console.terminal import redraws

__all__ = ["Progress"]


class Progress:
    """Of `total` chunks; use it as a context. `on` False says nothing at all."""

    def __init__(self, total: int, *, on: bool = True, stream: TextIO | None = None) -> None:
        self._total = total
        self._on = on
        self._stream = sys.stderr if stream is None else stream
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._rows = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        self._bar = _bar(self._stream) if self._on and redraws(self._stream) else None
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total, amount="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line that has nothing to do with chunks."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        elif self._on:
            self._stream.write(text + "\n")
            self._stream.flush()

    def written(self, number: int, rows: int, size: int | None) -> None:
        """Chunk `number` is committed."""
        self._rows += rows
        self._bytes += size or 0
        amount = f"{rows:,} rows" + ("" if size is None else f", {bytes_of(size)}")
        self._advance(number, amount)

    def skipped(self, number: int) -> None:
        """Chunk `number` was committed before."""
        self._advance(number, "was committed before")

    def _advance(self, number: int, what: str) -> None:
        if self._bar is None:
            seconds = time.monotonic() - self._started
            self.say(f"chunk {number + 1} of {self._total}: {what} ({seconds:.1f} s)")
            return
        total = f"{self._rows:,} rows" + (f", {bytes_of(self._bytes)}" if self._bytes else "")
        self._bar.update(self._task, advance=1, amount=total)


def _bar(stream: TextIO) -> Any:
    """None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    return Progress(
        SpinnerColumn(),
        TextColumn("load"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("chunks"),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
        console=Console(file=stream),
    )
