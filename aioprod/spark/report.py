"""A report as one HTML file: text, tables and pictures, nothing loaded from anywhere, fit for paper."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aioprod.console.files import write
from aioprod.console.pictures import Draw, can_draw, picture
from aioprod.console.tables import shown

__all__ = ["Page", "Tone"]

Tone: TypeAlias = Literal["plain", "good", "bad"]

_STYLE: Final = """
:root { --ink: #1d2530; --soft: #5c6672; --line: #d7dce2; --tint: #f4f6f8; --good: #2f6b43; --bad: #a33a3a }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 58rem; color: var(--ink); background: #fff;
       font: 15px/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1.2rem; padding-bottom: .7rem;
     border-bottom: 2px solid var(--ink) }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem }
p { margin: .6rem 0; max-width: 46rem; overflow-wrap: anywhere }
p.note { margin: 1rem 0; padding: .7rem 1rem; border-left: 4px solid var(--line); background: var(--tint);
         max-width: none }
p.good { border-color: var(--good) } p.bad { border-color: var(--bad) }
.scroll { overflow-x: auto; margin: 1rem 0 }
table { border-collapse: collapse; font-size: .92em }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top;
         overflow-wrap: anywhere }
th { border-bottom-color: var(--ink); font-weight: 600; white-space: nowrap }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
figure { margin: 1.4rem 0; break-inside: avoid } figure img { max-width: 100%; height: auto; display: block }
figcaption { color: var(--soft); font-size: .9em; margin-top: .3rem }
@media print { body { padding: 0; max-width: none; font-size: 11pt } h2 { break-after: avoid }
               tr { break-inside: avoid } .scroll { overflow: visible } }
"""


class Page:
    """A page that is written from top to bottom and saved at the end; every value is escaped.

    Pictures need matplotlib: without it the page says so and has its text and tables.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def section(self, heading: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{escape(heading)}</h2>")

    def text(self, text: str) -> None:
        """Add paragraphs: an empty line parts them."""
        self._parts += [f"<p>{escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip()]

    def note(self, text: str, tone: Tone = "plain") -> None:
        """Add a paragraph that stands out: a verdict, a warning."""
        self._parts.append(f'<p class="note {tone}">{escape(text)}</p>')

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Add a table. Numbers are shown as `shown` does and stand to the right; None is a dash."""
        body = [list(row) for row in rows]
        numeric = [
            any(_is_number(row[at]) for row in body) and all(row[at] is None or _is_number(row[at]) for row in body)
            for at in range(len(headers))
        ]
        self._parts.append('<div class="scroll"><table><thead>' + _row("th", headers, numeric) + "</thead><tbody>")
        self._parts += [_row("td", row, numeric) for row in body]
        self._parts.append("</tbody></table></div>")

    def figure(self, caption: str, draw: Draw, *, alt: str | None = None, height_in: float = 3.0) -> None:
        """Add a picture that `draw` makes on empty axes; `alt` says what it shows, `caption` if not given."""
        if not can_draw():
            self.text(f"{caption} (No picture: matplotlib is not installed.)")
            return
        source = base64.b64encode(picture(draw, height_in=height_in)).decode()
        said = escape(caption if alt is None else alt)
        self._parts.append(
            f'<figure><img alt="{said}" src="data:image/png;base64,{source}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )

    def html(self) -> str:
        """The whole page."""
        title = escape(self._title)
        body = "\n".join(self._parts)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
        )

    def save(self, path: str | Path) -> None:
        """Write the page; raises UsageError where that can't be done."""
        write(path, self.html(), "The report")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _row(tag: str, values: Sequence[object], numeric: Sequence[bool]) -> str:
    cells = (
        f"<{tag}{' class=number' if right else ''}>{escape(shown(value))}</{tag}>"
        for value, right in zip(values, numeric, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"
