"""What is known of the table of an outbox, for probes, graphs and people."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OutboxHealth"]


class OutboxHealth(NamedTuple):
    """What waits in the table of an outbox, as it was seen last; `relay.health()` has the way from there to Kafka."""

    waiting_rows: int
    """Rows that are committed and not in Kafka; above 1,000 by their ids, so those rolled back count, too."""
    oldest_age_s: float
    """The time since the oldest of them was put, when that was seen; 0.0 without one."""
    held_by: str | None
    """The transaction for whose end rows wait, in words; None where they wait for none. In Postgres only."""
    held_age_s: float
    """Since when they wait for it, 0.0 where they wait for none."""
    seen_age_s: float | None
    """The time since the table was looked at, which is every five seconds; None before the first look."""
    error: BaseException | None
    """Why the table could not be looked at; None after a look."""

    def is_ready(self, age_max_s: float = 30.0) -> bool:
        """Whether rows leave: the table was seen in the last `age_max_s`, and no row had waited longer than that.

        `relay.health().is_ready()` does not know of rows that were not read, such as those that a transaction holds.
        """
        return self.seen_age_s is not None and max(self.seen_age_s, self.oldest_age_s) <= age_max_s
