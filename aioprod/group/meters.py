"""What a member measures of itself."""

from __future__ import annotations

from aioprod.group.fetcher import Fetcher
from aioprod.metrics import Metrics

__all__ = ["MemberMetrics", "measured"]


class MemberMetrics(Metrics):
    """Counters since the member was made, and how it is now, under the names of Java's consumer where it has them."""

    def __init__(self) -> None:
        super().__init__()
        self.records_consumed_total = self.gauge("records_consumed_total", "Records given out.")
        self.bytes_consumed_total = self.gauge(
            "bytes_consumed_total", "Bytes of record batches that were fetched, compressed as they came."
        )
        self.fetch_total = self.gauge("fetch_total", "Answers to Fetch requests.")
        self.records_lag_max = self.gauge(
            "records_lag_max",
            "Most offsets that a partition is behind its end, of those whose end is known; absent while none is.",
            lambda: None,
        )
        self.assigned_partitions = self.gauge("assigned_partitions", "Partitions that the member owns.")
        self.paused_partitions = self.gauge("paused_partitions", "Partitions that are paused.")
        self.rebalance_total = self.counter(
            "rebalance_total", "Times that the member was given its partitions, the first one included."
        )
        self.partitions_revoked_total = self.counter("partitions_revoked_total", "Partitions given up in order.")
        self.partitions_lost_total = self.counter(
            "partitions_lost_total", "Partitions that may have been another member's already when they were given up."
        )
        self.commit_total = self.counter("commit_total", "Commits that the group took.")
        self.commit_failed_total = self.counter("commit_failed_total", "Commits that raised an error.")
        self.commit_latency = self.histogram("commit_latency", "Time in ms that a commit took that the group took.")


def measured(fetcher: Fetcher) -> MemberMetrics:
    """The metrics of a member that reads by this fetcher; they refer to that, and not to the member."""
    metrics = MemberMetrics()
    metrics.records_consumed_total.read = lambda: fetcher.records_given
    metrics.bytes_consumed_total.read = lambda: fetcher.bytes_fetched
    metrics.fetch_total.read = lambda: fetcher.answers
    metrics.records_lag_max.read = lambda: max(
        (behind for behind in fetcher.lag.values() if behind is not None), default=None
    )
    metrics.paused_partitions.read = lambda: len(fetcher.paused)
    return metrics
