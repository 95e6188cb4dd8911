"""`Scenario`, and the decorators that make one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.support.lab import Lab

__all__ = ["Scenario", "scenario", "scenario_of_version_2"]


@dataclass(frozen=True)
class Scenario:
    """Requests and the expected answers. `level`: the only transaction version that it is for, None for both."""

    name: str
    check: Callable[[Lab], Awaitable[None]]
    level: int | None = None

    def __str__(self) -> str:
        return self.name


def scenario(check: Callable[[Lab], Awaitable[None]]) -> Scenario:
    """A scenario for both versions of the transaction protocol."""
    return Scenario(check.__name__, check)


def scenario_of_version_2(check: Callable[[Lab], Awaitable[None]]) -> Scenario:
    """A scenario for brokers with transaction version 2."""
    return Scenario(check.__name__, check, level=2)
