"""The metrics of a spool."""

from __future__ import annotations

from collections.abc import Callable

from aioprod.metrics import Metrics
from aioprod.metrics.families import BYTES
from aioprod.spool.layout import Group

__all__ = ["SpoolMetrics"]


class SpoolMetrics(Metrics):
    """Counters since the producer was created, and current gauges."""

    def __init__(
        self,
        kept_records: Callable[[], int] = lambda: 0,
        kept_bytes: Callable[[], int] = lambda: 0,
        set_aside: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__()
        self._records = self.counter("spool_records_total", "Records that were brought to the disk.")
        self._bytes = self.counter("spool_bytes_total", "Bytes that were written for them.", BYTES)
        self._groups = self.counter("spool_syncs_total", "Groups of records, each written and synced once.")
        self._group_size = self.histogram("spool_group_size", "Records of a group.")
        self.failed = self.counter("spool_failed_records_total", "Records that were accepted and could not be kept.")
        self.gauge("spool_kept_records", "Records that are on disk, and not in Kafka as far as is known.", kept_records)
        self.gauge("spool_kept_bytes", "The bytes of the spool's files.", kept_bytes, BYTES)
        self.gauge("spool_set_aside_records", "Records that brokers did not take, in a file of their own.", set_aside)

    def synced(self, group: Group) -> None:
        """Count a group that is on the disk."""
        self._records.add(group.records)
        self._bytes.add(group.end - group.at)
        self._groups.add()
        self._group_size.record(group.records)
