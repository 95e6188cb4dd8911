"""What consumer groups ask of the broker around them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from aioprod.testing.fake.state.timers import CallOff, Timers

__all__ = ["GroupHost", "GroupSettings"]

UUID_BITS: Final = 128


@dataclass
class GroupSettings:
    """What brokers allow, for a test to change. In brackets Kafka's names, which say what is meant."""

    initial_delay_s: float = 0.0
    """`group.initial.rebalance.delay.ms`"""
    size_max: int | None = None
    """`group.max.size`, `group.consumer.max.size`"""
    session_timeouts_ms: tuple[int, int] = (10, 1_800_000)
    """`group.min.session.timeout.ms` and `group.max.session.timeout.ms`"""
    session_timeout_s: float = 45.0
    """`group.consumer.session.timeout.ms`"""
    heartbeat_interval_s: float = 5.0
    """`group.consumer.heartbeat.interval.ms`"""


class GroupHost:
    """Time, names and settings of one group. What it left to do is dropped while its coordinator is not the one that it
    began with."""

    def __init__(self, settings: GroupSettings, timers: Timers, random: Random, is_home: Callable[[], bool]) -> None:
        self.settings = settings
        self._timers = timers
        self._random = random
        self._is_home = is_home

    def later(self, delay_s: float, work: Callable[[], None]) -> CallOff:
        """Call `work` in `delay_s` seconds, unless it is called off or the coordinator changes."""
        return self._timers.later(delay_s, lambda: work() if self._is_home() else None)

    def new_member_id(self, prefix: str) -> str:
        """An id that nobody had before."""
        return f"{prefix}-{uuid.UUID(int=self._random.getrandbits(UUID_BITS))}"
