"""Pictures, drawn by matplotlib where it is installed."""

from __future__ import annotations

import io
from argparse import ArgumentTypeError
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "KINDS", "Draw", "can_draw", "picture", "picture_file", "plain"]

Draw: TypeAlias = "Callable[[Axes], None]"

COLORS: Final = ("#2f5d8a", "#c8762b", "#4d7c57", "#8a4f7d", "#7a7a7a", "#b04a4a")
"""For curves and bars, in the order of their use; distinct in print and to most colour-blind readers."""

KINDS: Final = ("png", "svg", "pdf")
"""The formats of picture files."""

_STYLE: Final[Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5c6672",
    "axes.labelcolor": "#1d2530",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e3e7ec",
    "font.size": 9,
    "legend.frameon": False,
    "xtick.color": "#5c6672",
    "ytick.color": "#5c6672",
}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def picture_file(text: str) -> Path:
    """The type of an argument that names a picture file; raises ArgumentTypeError where none can be drawn."""
    path = Path(text)
    if path.suffix[1:] not in KINDS:
        raise ArgumentTypeError(f"{text!r} has to end with one of .{', .'.join(KINDS)}")
    if not can_draw():
        raise ArgumentTypeError("pictures need matplotlib: pip install 'aioprod[cli]'")
    return path


def picture(draw: Draw, *, height_in: float, width_in: float = 8.0, kind: str = "png") -> bytes:
    """The picture that `draw` makes on empty axes, as a file of one of `KINDS`; the same bytes each time."""
    # A figure of its own and no pyplot: it needs no display, keeps nothing, and is safe in threads.
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE | {"axes.prop_cycle": cycler(color=COLORS), "svg.hashsalt": "aioprod"}):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        written = io.BytesIO()
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        figure.savefig(written, format=kind, dpi=150, metadata=undated)
    return written.getvalue()


def plain(text: str) -> str:
    """Text for a picture: dollar signs would begin a formula, what a font has no sign for would be a warning."""
    return "".join(sign if sign.isascii() else "?" for sign in text).replace("$", r"\$")
