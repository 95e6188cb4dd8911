"""The health of a producer, for the probes of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from aioprod.producer.batching.accumulator import Accumulator

if TYPE_CHECKING:
    from aioprod.producer.engine import Engine

__all__ = ["Health", "health_of"]


class Health(NamedTuple):
    """The health of a producer now. Ages are in seconds, sizes in bytes."""

    state: str
    """One of new, starting, running, closing, closed and failed."""
    connected: tuple[int, ...]
    """The ids of the brokers with a connection that can be used."""
    away: Mapping[int, str]
    """The ids of the brokers that could not be reached at the last try, each with the reason."""
    records: int
    """How many accepted records have no outcome yet."""
    buffer_used: int
    """What these take of the buffer memory."""
    buffer_total: int
    """The buffer memory, `buffer.memory`."""
    oldest_age_s: float
    """The age of the oldest record without an outcome, 0.0 without one. Those that wait for `resolve.unknown.outcomes`
    are left out: later records decide about them, so that they must not keep work away."""
    error: BaseException | None
    """Why the producer has failed for good, such as another one with its `transactional.id`; None while it can work."""

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


def health_of(engine: Engine) -> Health:
    """What is known of a producer without a request."""
    guard, transactions = engine.guard, engine.transactions
    error = guard.cause if transactions is None or guard.cause is not None else transactions.fatal_error
    state = guard.state.value if error is None else "failed"
    if guard.loop is None:
        return Health(state, (), {}, 0, 0, engine.config.buffer_memory, 0.0, error)
    budget = engine.parts.accumulator.budget
    return Health(
        state,
        engine.parts.client.connected_brokers,
        engine.parts.client.failing_brokers,
        budget.records,
        budget.used,
        budget.limit,
        _oldest_age_s(engine.parts.accumulator, engine.parts.clock()),
        error,
    )


def _oldest_age_s(accumulator: Accumulator, now: float) -> float:
    """The age of the oldest record without an outcome in seconds, 0.0 without one; `now` is in monotonic seconds."""
    accumulator.sort_incomplete()
    oldest = next(iter(accumulator.incomplete), None)
    since = now if oldest is None else oldest.created
    for topic in accumulator.parked_topics.values():
        if topic.parked:
            since = min(since, topic.parked[0].accepted)
    return max(0.0, now - since)
