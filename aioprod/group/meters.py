"""The metrics of a member."""

from __future__ import annotations

from aioprod.group.fetcher import Fetcher
from aioprod.metrics import Metrics
from aioprod.metrics.families import BYTES, MILLISECONDS

__all__ = ["MemberMetrics", "measured"]


class MemberMetrics(Metrics):
    """Counters since the member was created, and current gauges, named as in Java's consumer where it has them."""

    def __init__(self) -> None:
        super().__init__()
        self.records_consumed_total = self.total("records_consumed_total", "Records returned to the application.")
        self.bytes_consumed_total = self.total(
            "bytes_consumed_total", "Bytes of fetched record batches, compressed.", BYTES
        )
        self.fetch_total = self.total("fetch_total", "Responses to Fetch requests.")
        self.records_lag_max = self.gauge(
            "records_lag_max",
            "The largest lag of a partition in offsets; absent while no log end is known.",
            lambda: None,
        )
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


def measured(fetcher: Fetcher) -> MemberMetrics:
    """The metrics of a member with this fetcher; they have no reference to the member."""
    metrics = MemberMetrics()
    metrics.records_consumed_total.observe(lambda: fetcher.records_returned)
    metrics.bytes_consumed_total.observe(lambda: fetcher.bytes_fetched)
    metrics.fetch_total.observe(lambda: fetcher.responses)
    metrics.records_lag_max.observe(lambda: max((lag for lag in fetcher.lag.values() if lag is not None), default=None))
    metrics.paused_partitions.observe(lambda: len(fetcher.paused))
    return metrics
