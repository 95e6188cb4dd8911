"""Draw all pictures into docs/images."""

from __future__ import annotations

from tools.documentation.links import ROOT
from tools.documentation.pictures.figures import FIGURES
from tools.documentation.pictures.plots import PLOTS

if __name__ == "__main__":
    for name, drawn in (FIGURES | PLOTS).items():
        (ROOT / "docs" / "images" / name).write_text(drawn().svg(), encoding="utf-8")
