"""A plan as text."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TextIO

from aioprod.spark.planning.measures import PlanReport
from aioprod.spark.planning.tables import Table, headline, tables
from aioprod.spark.report import shown

__all__ = ["plain", "show"]


def show(report: PlanReport, stream: TextIO) -> None:
    """Write a summary, in tables of `rich` where it is installed and the stream is a terminal."""
    if stream.isatty() and find_spec("rich") is not None:
        _show_rich(report, stream)
    else:
        stream.write(plain(report))


def plain(report: PlanReport) -> str:
    """The summary as plain text."""
    told = (f"{table.heading}. {table.says}\n{_aligned(table)}" for table in tables(report))
    return "\n\n".join([headline(report), *told, report.recommendation]) + "\n"


def _aligned(table: Table) -> str:
    cells = [list(table.headers), *([shown(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [all(isinstance(row[at], int | float) for row in table.rows) for at in range(len(widths))]
    return "\n".join(
        "  "
        + "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    )


def _show_rich(report: PlanReport, stream: TextIO) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    console.print(Text(headline(report)))
    for table in tables(report):
        drawn = RichTable(title=Text(table.heading), caption=Text(table.says), box=SIMPLE, title_justify="left")
        for at, name in enumerate(table.headers):
            is_number = all(isinstance(row[at], int | float) for row in table.rows)
            drawn.add_column(Text(name), justify="right" if is_number else "left")
        for row in table.rows:
            drawn.add_row(*(Text(shown(value)) for value in row))
        console.print(drawn)
    console.print(Text(report.recommendation, style="bold"))
