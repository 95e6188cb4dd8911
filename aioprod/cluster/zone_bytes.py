"""Bytes exchanged with brokers within the client's zone, and with all others."""

from __future__ import annotations

from collections.abc import Callable

from aioprod.cluster.model import Cluster

__all__ = ["ZoneBytes"]


class ZoneBytes:
    """Counts bytes by whether the broker is in the client's rack; a broker whose rack is unknown is not."""

    def __init__(self, rack: str, cluster: Callable[[], Cluster]) -> None:
        self.within = self.across = 0
        self._rack = rack
        self._cluster = cluster

    def add(self, node_id: int, size: int) -> None:
        """So many bytes went to a broker, or came from it."""
        node = self._cluster().node(node_id)
        if node is not None and node.rack == self._rack:
            self.within += size
        else:
            self.across += size
