"""How much a member has fetched."""

from __future__ import annotations

from collections.abc import Callable

from aioprod.cluster import Cluster
from aioprod.cluster.zone_bytes import ZoneBytes
from aioprod.messages import FetchResponse

__all__ = ["FetchCounts"]


class FetchCounts:
    """Totals of the responses to Fetch requests."""

    def __init__(self, rack: str, cluster: Callable[[], Cluster]) -> None:
        self.responses = 0
        self.bytes = 0
        """Bytes of record batches, compressed."""
        self.zones = ZoneBytes(rack, cluster) if rack else None
        """The same bytes by zone; None without `client.rack`."""

    def note(self, node_id: int, response: FetchResponse) -> None:
        """A broker has answered."""
        size = sum(len(row.records or b"") for topic in response.responses for row in topic.partitions)
        self.responses += 1
        self.bytes += size
        if self.zones is not None:
            self.zones.add(node_id, size)
