"""`GroupHost`: what a consumer group gets from its coordinator, timers and ids, and the brokers' group settings."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from aioprod.testing.fake.state.timers import Cancel, Timers

__all__ = ["GroupHost", "GroupSettings"]

_UUID_BITS: Final = 128


@dataclass
class GroupSettings:
    """Settings of all brokers that a test may change; below each is Kafka's name."""

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
    """Timers, ids and settings for one group. A timer has no effect once another broker coordinates the group."""

    def __init__(self, settings: GroupSettings, timers: Timers, random: Random, is_current: Callable[[], bool]) -> None:
        self.settings = settings
        self._timers = timers
        self._random = random
        self._is_current = is_current

    def later(self, delay_s: float, work: Callable[[], None]) -> Cancel:
        """Call `work` in `delay_s` seconds, unless it is cancelled or the coordinator changes."""
        return self._timers.later(delay_s, lambda: work() if self._is_current() else None)

    def new_member_id(self, prefix: str) -> str:
        """A new member id."""
        return f"{prefix}-{uuid.UUID(int=self._random.getrandbits(_UUID_BITS))}"
