"""The metrics of an outbox's table."""

from __future__ import annotations

from collections.abc import Callable

from aioprod.metrics import Metrics
from aioprod.metrics.families import SECONDS
from aioprod.outbox.health import OutboxHealth

__all__ = ["OutboxMetrics"]


class OutboxMetrics(Metrics):
    """Counters since the table's object was created, and gauges of what was seen last."""

    def __init__(
        self, health: Callable[[], OutboxHealth] = lambda: OutboxHealth(0, 0.0, None, 0.0, None, None)
    ) -> None:
        super().__init__()
        self.read = self.counter(
            "outbox_read_rows_total", "Rows that were read; some once more after a start or a failure."
        )
        self.deleted = self.counter("outbox_deleted_rows_total", "Rows that were deleted, as they are in Kafka.")
        self.notifications = self.counter(
            "outbox_notifications_total", "Waits that a writer's notification has ended; in Postgres only."
        )
        self.gauge(
            "outbox_waiting_rows",
            "Rows that are committed and not in Kafka; above 1,000 by their ids, so those rolled back count, too.",
            lambda: health().waiting_rows,
        )
        self.gauge(
            "outbox_oldest_age",
            "The time since the oldest of these was put; 0 without one.",
            lambda: health().oldest_age_s,
            SECONDS,
        )
        self.gauge(
            "outbox_held_age",
            "Since when rows have waited for the end of a transaction, which `health()` names; 0 where they don't.",
            lambda: health().held_age_s,
            SECONDS,
        )
        self.gauge(
            "outbox_seen_age",
            "The time since the table was looked at, for the gauges; absent before the first look.",
            lambda: health().seen_age_s,
            SECONDS,
        )
