"""The health of a producer, for the probes of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aioprod.core.accumulator import Accumulator

__all__ = ["Health", "oldest_age_s"]


class Health(NamedTuple):
    """The health of a producer now. Ages are in seconds, sizes in bytes.

    `state` is new, starting, running, closing, closed or failed. `connected` are the ids of the brokers with a
    connection that can be used, `away` those that could not be reached at the last try, each with the reason.
    `oldest_age_s` is the age of the oldest record without an outcome, 0.0 without one. `error` is why the producer has
    failed for good, such as another producer with its `transactional.id`, None while it can work.
    """

    state: str
    connected: tuple[int, ...]
    away: Mapping[int, str]
    records: int
    buffer_used: int
    buffer_total: int
    oldest_age_s: float
    error: BaseException | None

    @property
    def is_alive(self) -> bool:
        """Whether to keep the process: only a producer that has failed for good needs a new one."""
        return self.error is None

    def is_ready(self, age_max_s: float = 30.0, buffer_share_max: float = 0.9) -> bool:
        """Whether to route work here: the producer runs, a broker is connected, and records move.

        Records that wait longer than `age_max_s`, or a buffer that is fuller than `buffer_share_max`, say that the
        cluster takes less than is sent.
        """
        return (
            self.state == "running"
            and bool(self.connected)
            and self.oldest_age_s <= age_max_s
            and self.buffer_used <= buffer_share_max * self.buffer_total
        )


def oldest_age_s(accumulator: Accumulator, now: float) -> float:
    """The age of the oldest record without an outcome in seconds, 0.0 without one; `now` is in monotonic seconds."""
    accumulator.sort_incomplete()
    oldest = next(iter(accumulator.incomplete), None)
    since = now if oldest is None else oldest.created
    for topic in accumulator.parked_topics.values():
        if topic.parked:
            since = min(since, topic.parked[0].accepted)
    return max(0.0, now - since)
