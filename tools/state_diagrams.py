"""The diagrams of states in the pages of the documentation, drawn from the tables of transitions."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

__all__ = ["filled"]

_PLACE: Final = re.compile(r"(<!-- diagram: made from ([\w.]+) -->\n```mermaid\n).*?(?=```\n)", re.DOTALL)


def filled(page: str) -> str:
    """The page with its diagrams as they have to be, each after its `<!-- diagram: made from MODULE -->`."""
    return _PLACE.sub(lambda place: f"{place[1]}{import_module(place[2]).diagram()}\n", page)
