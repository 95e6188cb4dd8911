"""Tests in simulated time: limits of some milliseconds, on a machine of any speed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from aioprod.testing.simulation import SimulatedLoop

__all__ = ["in_simulated_time"]

P = ParamSpec("P")


def in_simulated_time(scene: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine function. Time passes only while all tasks wait: pauses of the process don't count."""

    @functools.wraps(scene)
    def play(*arguments: P.args, **options: P.kwargs) -> None:
        with SimulatedLoop(1) as loop:
            loop.run(scene(*arguments, **options))

    return play
