"""Numbers, keys and tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from aioprod.console.escapes import escaped

__all__ = ["Part", "Table", "cell", "gap", "key_text", "paragraph", "percent", "shortened", "shown", "text_of"]


class Table(NamedTuple):
    """A heading, what the numbers mean, and the numbers; `left_out` rows are missing in the middle."""

    heading: str
    says: str
    headers: tuple[str, ...]
    rows: list[tuple[object, ...]]
    left_out: int = 0

    @property
    def is_number(self) -> list[bool]:
        """Per column whether all of its cells are numbers, which are aligned right."""
        return [all(isinstance(row[at], int | float) for row in self.rows) for at in range(len(self.headers))]


Part: TypeAlias = str | Table
"""A part of a command's output: a paragraph or a table."""


def shortened(rows: Sequence[tuple[object, ...]], rows_max: int | None) -> tuple[list[tuple[object, ...]], int]:
    """The first and the last rows, `rows_max` in all, and how many were left out; None leaves none out."""
    if rows_max is None or len(rows) <= rows_max:
        return list(rows), 0
    last = rows_max // 2
    first = rows_max - last
    return [*rows[:first], *rows[len(rows) - last :]], len(rows) - rows_max


def text_of(parts: Iterable[Part]) -> str:
    """Paragraphs and tables as plain text, an empty line between two of them."""
    return "\n\n".join(paragraph(part) if isinstance(part, str) else _titled(part) for part in parts) + "\n"


def paragraph(text: str) -> str:
    """A paragraph, which may have several lines."""
    return "\n".join(map(cell, text.split("\n")))


def _titled(table: Table) -> str:
    title = " ".join(filter(None, [f"{cell(table.heading)}.", cell(table.says)]))
    return f"{title}\n{_aligned(table)}"


def _aligned(table: Table) -> str:
    cells = [list(table.headers), *([cell(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    to_the_right = table.is_number
    lines = [
        "  "
        + "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, to_the_right, strict=True)
        ).rstrip()
        for row in cells
    ]
    if table.left_out:
        lines.insert(1 + gap(table), f"  ... {table.left_out:,} more")
    return "\n".join(lines)


def gap(table: Table) -> int:
    """The index of the row before which a table has left rows out."""
    return (len(table.rows) + 1) // 2


def cell(value: object) -> str:
    """A value in a table of text, where control characters, such as line ends, are escaped."""
    return escaped(shown(value))


def shown(value: object) -> str:
    """A value as reports show it: thousands separated, at most two decimal places."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def key_text(key: bytes | None, *, at_most: int | None = 48) -> str:
    """A key as text where it is text, else in hex; cut after `at_most` characters."""
    if key is None:
        return "(no key)"
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = "\ufffd"
    if not text.isprintable() or "\ufffd" in text:
        text = f"0x{key.hex()}"
    return text if at_most is None or len(text) <= at_most else f"{text[:at_most]}..."


def percent(part: float, whole: float = 1.0) -> str:
    """A percentage as text, `0 %` of nothing."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if share >= 0.1 or share == 0 else f"{share:.2g} %"
