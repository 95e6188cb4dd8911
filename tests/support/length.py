"""The two forms of the tests: the short one of `make test`, and the long one of `make test-long` (AIOPROD_LONG=1).

A test, or a parameter of one, that only the long form runs is marked with `pytest.mark.long`; one that both run, with
more of the same in the long form, takes its numbers from `by_length`.
"""

from __future__ import annotations

import os
from typing import Final, TypeVar

__all__ = ["LONG", "PAUSE_S", "by_length"]

T = TypeVar("T")

LONG: Final = os.environ.get("AIOPROD_LONG", "") not in ("", "0")


def by_length(short: T, long: T) -> T:
    """The first in the short form of the tests, the second in the long one."""
    return long if LONG else short


PAUSE_S: Final = by_length(0.005, 0.0)
"""Between the sends of a test that sends for seconds: the short form leaves the machine to the tests beside it."""
