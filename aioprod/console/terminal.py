"""What a terminal can do, and paragraphs and tables on it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TextIO

from aioprod.console.tables import Part, Table, cell, gap, paragraph, text_of

__all__ = ["redraws", "show"]


def redraws(stream: TextIO) -> bool:
    """Whether what was written to the stream can be written over: it is a terminal, and no dumb one."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def show(parts: Iterable[Part], stream: TextIO) -> None:
    """Write paragraphs and tables, the latter in tables of `rich` where it is installed and the stream is a terminal.

    Anywhere else it is plain text, and nothing is cut or folded to a width.
    """
    if not stream.isatty() or find_spec("rich") is None:
        stream.write(text_of(parts))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for index, part in enumerate(parts):
        if index:
            console.print()
        if isinstance(part, str):
            console.print(Text(paragraph(part)))
        else:
            console.print(Text.assemble((f"{cell(part.heading)}.", "bold"), f" {cell(part.says)}"))
            console.print(_drawn(part))


def _drawn(table: Table) -> object:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=SIMPLE_HEAD, show_edge=False)
    for name, is_number in zip(table.headers, table.is_number, strict=True):
        drawn.add_column(Text(name), justify="right" if is_number else "left")
    for at, row in enumerate(table.rows):
        if table.left_out and at == gap(table):
            drawn.add_row(f"... {table.left_out:,} more")
        drawn.add_row(*(Text(cell(value)) for value in row))
    return drawn
