"""Numbers on the command lines of the examples."""

from __future__ import annotations

import argparse
from collections.abc import Callable

__all__ = ["at_least"]


def at_least(lowest: int) -> Callable[[str], int]:
    """A `type=` for argparse: a whole number that is not below `lowest`; anything else ends the program with 2."""

    def number(text: str) -> int:
        try:
            given = int(text)
        except ValueError:
            given = None
        if given is None or given < lowest:
            raise argparse.ArgumentTypeError(f"{text!r:.50} is not a whole number from {lowest} on.")
        return given

    return number
