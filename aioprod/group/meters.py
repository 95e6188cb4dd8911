"""The metrics of a member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from aioprod.group.fetcher import Fetcher
from aioprod.metrics import Metrics
from aioprod.metrics.families import BYTES, MILLISECONDS, NUMBER, OTHER, SECONDS, Family, Point
from aioprod.types import TopicPartition

__all__ = ["MemberMetrics", "measured"]

_PARTITIONS_MAX: Final = 1000
"""How many partitions have a lag of their own; that of all others is one number."""
_LAG: Final = "The lag of each partition in offsets; absent while its log end is not known, or old."


class MemberMetrics(Metrics):
    """Counters since the member was created, and current gauges, named as in Java's consumer where it has them."""

    def __init__(self) -> None:
        super().__init__()
        self.records_consumed_total = self.total("records_consumed_total", "Records returned to the application.")
        self.bytes_consumed_total = self.total(
            "bytes_consumed_total", "Bytes of fetched record batches, compressed.", BYTES
        )
        self.bytes_consumed_within_zone_total = self.gauge(
            "bytes_consumed_within_zone_total",
            "Bytes of fetched record batches that came from brokers in `client.rack`; absent without that.",
            lambda: None,
            BYTES,
            "counter",
        )
        self.bytes_consumed_across_zones_total = self.gauge(
            "bytes_consumed_across_zones_total",
            "Bytes of fetched record batches that came from other brokers; absent without `client.rack`.",
            lambda: None,
            BYTES,
            "counter",
        )
        self.fetch_total = self.total("fetch_total", "Responses to Fetch requests.")
        self.records_lag_max = self.gauge(
            "records_lag_max",
            "The largest lag of a partition in offsets; absent while no log end is known.",
            lambda: None,
        )
        self.last_poll_age_s = self.gauge(
            "last_poll_age_s", "The time since the application polled; 0 while it waits for records.", unit=SECONDS
        )
        self.last_fetch_age_s = self.gauge(
            "last_fetch_age_s",
            "The time since a broker answered a Fetch request; absent before the first answer.",
            lambda: None,
            SECONDS,
        )
        self.last_heartbeat_age_s = self.gauge(
            "last_heartbeat_age_s",
            "The time since the coordinator answered a heartbeat; absent before the first answer.",
            lambda: None,
            SECONDS,
        )
        self._read_lag: Callable[[], Mapping[TopicPartition, int | None]] = dict
        self.assigned_partitions = self.gauge("assigned_partitions", "Partitions assigned to the member.")
        self.paused_partitions = self.gauge("paused_partitions", "Partitions that are paused.")
        self.rebalance_total = self.counter(
            "rebalance_total", "Rebalances that ended with an assignment, the first one included."
        )
        self.partitions_revoked_total = self.counter(
            "partitions_revoked_total", "Partitions revoked, without those lost."
        )
        self.partitions_lost_total = self.counter(
            "partitions_lost_total",
            "Partitions lost: another member may have owned them already when they were revoked.",
        )
        self.commit_total = self.counter("commit_total", "Commits that succeeded.")
        self.commit_failed_total = self.counter("commit_failed_total", "Commits that raised an error.")
        self.commit_latency = self.histogram(
            "commit_latency", "The latency of successful commits.", unit=MILLISECONDS, low=-2, high=17
        )

    def observe_lag(self, read: Callable[[], Mapping[TopicPartition, int | None]]) -> None:
        """Read the lag of each partition from the part that knows it, from now on."""
        self._read_lag = read

    def families(self) -> list[Family]:
        """All metrics as monitoring systems collect them, the lag of each partition last."""
        return [*super().families(), self._lags()]

    def _lags(self) -> Family:
        lags = sorted((tp, lag) for tp, lag in self._read_lag().items() if lag is not None)
        points = [Point(_labels(*tp), lag) for tp, lag in lags[:_PARTITIONS_MAX]]
        if rest := lags[_PARTITIONS_MAX:]:
            points.append(Point(_labels(OTHER, OTHER), sum(lag for _, lag in rest)))
        return Family("records_lag", "gauge", NUMBER, _LAG, ("topic", "partition"), tuple(points))


def _labels(topic: str, partition: object) -> dict[str, str]:
    return {"topic": topic, "partition": str(partition)}


def measured(fetcher: Fetcher) -> MemberMetrics:
    """The metrics of a member with this fetcher; they have no reference to the member."""
    metrics = MemberMetrics()
    metrics.records_consumed_total.observe(lambda: fetcher.records_returned)
    metrics.bytes_consumed_total.observe(lambda: fetcher.counts.bytes)
    metrics.fetch_total.observe(lambda: fetcher.counts.responses)
    if (zones := fetcher.counts.zones) is not None:
        metrics.bytes_consumed_within_zone_total.observe(lambda: zones.within)
        metrics.bytes_consumed_across_zones_total.observe(lambda: zones.across)
    metrics.records_lag_max.observe(lambda: max((lag for lag in fetcher.lag.values() if lag is not None), default=None))
    metrics.observe_lag(lambda: fetcher.lag)
    metrics.paused_partitions.observe(lambda: len(fetcher.paused))
    return metrics
