"""The health of a member, for the probes of a service."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MemberHealth"]


class MemberHealth(NamedTuple):
    """The health of a member now. Ages are in seconds."""

    state: str
    """One of new, joining, reading, closing, closed and failed."""
    assigned: int
    """How many partitions it owns."""
    last_poll_age_s: float
    """How long the application has not polled; 0.0 while it waits for records."""
    last_fetch_age_s: float | None
    """How long ago a broker answered a request for records; None before the first answer."""
    last_heartbeat_age_s: float | None
    """How long ago the group's coordinator accepted a heartbeat; None before the first one."""
    lag: int | None
    """The offsets that it is behind in all; None while the end of a log is not known, or what is known is old."""
    poll_interval_s: float
    """The time in which the application has to poll: `max.poll.interval.ms`."""
    error: BaseException | None
    """What has ended the member; None while it can work."""

    @property
    def is_alive(self) -> bool:
        """Whether to keep the process: it polls in time, and no error has ended the member."""
        return self.error is None and self.last_poll_age_s <= self.poll_interval_s

    def is_ready(self, heartbeat_age_max_s: float = 30.0) -> bool:
        """Whether the member has joined its group, and the coordinator has answered a heartbeat lately."""
        age_s = self.last_heartbeat_age_s
        return self.is_alive and self.state == "reading" and age_s is not None and age_s <= heartbeat_age_max_s
