"""The pictures of the site, in docs/images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tools.documentation.pictures.drawing import Drawing
from tools.documentation.pictures.figures import FIGURES
from tools.documentation.pictures.plots import PLOTS

__all__ = ["PICTURES"]

PICTURES: Final[dict[str, Callable[[], Drawing]]] = {**FIGURES, **PLOTS}
"""By the name of the file; called, it is drawn."""
