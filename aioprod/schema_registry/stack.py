"""Room on the stack for compiled code that ends in a panic, which is no Exception, where Python's own code would raise
RecursionError: the maps of `referencing`, in which references are looked up.
"""

from __future__ import annotations

from typing import Final

__all__ = ["check_stack"]

_CALLS: Final = 50
"""How many calls inside each other have to be possible; to look a reference up takes less than 20."""


def check_stack() -> None:
    """Raise RecursionError, here and now, where the stack has no room for a look-up.

    The calls are tried, as Python does not say how many are left: frames can be counted, and calls of compiled code,
    which the limit counts too, can't.
    """
    _descend(_CALLS)


def _descend(calls: int) -> None:
    if calls:
        _descend(calls - 1)
