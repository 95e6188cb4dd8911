"""A drawing as SVG: boxes, arrows and words on a light card, which is legible on light and dark pages."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

__all__ = ["ACCENT", "BAD", "GOOD", "INK", "PALE", "QUIET", "THEIRS", "Drawing"]

INK: Final = "#1d2b33"
QUIET: Final = "#5b6b75"
ACCENT: Final = "#00796b"
THEIRS: Final = "#b35c1e"
GOOD: Final = "#2e7d32"
BAD: Final = "#b3261e"
PALE: Final = "#e0f2f1"
_CARD: Final = "#fbfcfc"
_FONT: Final = "font-family='Verdana, DejaVu Sans, sans-serif'"


class Drawing:
    """Collects shapes in pixels from the upper left corner; `svg()` is the file.

    `words` says in sentences what is to be seen, for readers without the picture.
    """

    def __init__(self, width: int, height: int, title: str, words: str) -> None:
        self.title = title
        self.words = words
        self._size = width, height
        self._shapes: list[str] = []

    def text(
        self, x: float, y: float, text: str, *, size: int = 13, color: str = INK, at: str = "middle", bold: bool = False
    ) -> None:
        """Lines of text, the first with its base line at `y`; `at` is start, middle or end."""
        weight = " font-weight='bold'" if bold else ""
        for number, line in enumerate(text.split("\n")):
            top = y + number * (size + 4)
            self._shapes.append(
                f"<text x='{x:g}' y='{top:g}' font-size='{size}' fill='{color}' text-anchor='{at}'{weight}>"
                f"{escape(line)}</text>"
            )

    def box(self, x: float, y: float, width: float, height: float, text: str, *, color: str = ACCENT) -> None:
        """A box with its text in the middle: the first line is bold."""
        self.area(x, y, width, height, color=color, fill=PALE if color == ACCENT else "#ffffff")
        first, *more = text.split("\n")
        top = y + height / 2 + 5 - 8 * len(more)
        self.text(x + width / 2, top, first, bold=True)
        for number, line in enumerate(more, 1):
            self.text(x + width / 2, top + 16 * number, line, size=11, color=QUIET)

    def area(
        self, x: float, y: float, width: float, height: float, *, color: str, fill: str, dashed: bool = False
    ) -> None:
        dash = " stroke-dasharray='5 4'" if dashed else ""
        place = f"x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}'"
        self._shapes.append(f"<rect {place} rx='6' fill='{fill}' stroke='{color}'{dash}/>")

    def bar(self, x: float, y: float, width: float, height: float, color: str) -> None:
        self._shapes.append(f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' fill='{color}'/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, *, color: str = QUIET, dashed: bool = False) -> None:
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self._shapes.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{color}' stroke-width='1.5'{dash}/>"
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, *, color: str = QUIET, dashed: bool = False) -> None:
        """A line with a head at its second end."""
        self.line(x1, y1, x2, y2, color=color, dashed=dashed)
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        along, across = ((x2 - x1) / length, (y2 - y1) / length), (-(y2 - y1) / length, (x2 - x1) / length)
        points = [(x2, y2)] + [
            (x2 - 9 * along[0] + side * across[0], y2 - 9 * along[1] + side * across[1]) for side in (4, -4)
        ]
        self._shapes.append(f"<polygon points='{' '.join(f'{x:.1f},{y:.1f}' for x, y in points)}' fill='{color}'/>")

    def span(self, x1: float, x2: float, y: float, text: str, color: str) -> None:
        """A measure from `x1` to `x2`, with its name below."""
        self.line(x1, y, x2, y, color=color)
        self.line(x1, y - 5, x1, y + 5, color=color)
        self.line(x2, y - 5, x2, y + 5, color=color)
        self.text((x1 + x2) / 2, y + 16, text, size=12, color=color)

    def svg(self) -> str:
        width, height = self._size
        head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' {_FONT}>"
        card = f"<rect width='{width}' height='{height}' rx='8' fill='{_CARD}'/>"
        said = f"<title>{escape(self.title)}</title>\n<desc>{escape(self.words)}</desc>"
        return "\n".join([head, said, card, *self._shapes, "</svg>", ""])
