"""A scenario, and how one is marked as such."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.support.lab import Lab

__all__ = ["Scenario", "scenario", "scenario_of_version_2"]


@dataclass(frozen=True)
class Scenario:
    """What a broker is asked and has to answer. `level`: the only version of the protocol that it is about, or None."""

    name: str
    check: Callable[[Lab], Awaitable[None]]
    level: int | None = None

    def __str__(self) -> str:
        return self.name


def scenario(check: Callable[[Lab], Awaitable[None]]) -> Scenario:
    """One for both versions of the transaction protocol."""
    return Scenario(check.__name__, check)


def scenario_of_version_2(check: Callable[[Lab], Awaitable[None]]) -> Scenario:
    """One that brokers can't go through that have version 1 only."""
    return Scenario(check.__name__, check, level=2)
