"""The state of a relay, for probes, graphs and people."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Lag", "RelayHealth"]


class Lag(NamedTuple):
    """What a relay has read from its source, and has not brought to Kafka yet."""

    records: int
    """How many records these are; the source may have more."""
    oldest_age_s: float
    """The time since the oldest of them was read, 0.0 without one."""


class RelayHealth(NamedTuple):
    """The health of a relay now."""

    state: str
    """One of new, starting, running, waiting (for the next try after a failure), and ended."""
    lag: Lag
    error: BaseException | None
    """The failure of the last try, or what has ended the relay; None while records move."""
    failures: int
    """How many tries have failed since a run was delivered."""

    @property
    def is_alive(self) -> bool:
        """Whether to keep the process: only a relay that has ended needs a new one."""
        return self.state != "ended"

    def is_ready(self, age_max_s: float = 30.0) -> bool:
        """Whether records move: it runs, and none that it has read waits for longer than `age_max_s`."""
        return self.state == "running" and self.lag.oldest_age_s <= age_max_s
