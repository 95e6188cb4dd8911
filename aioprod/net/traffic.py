"""What went to and came from each broker, over all connections that this client has had to it."""

from __future__ import annotations

from typing import Final

__all__ = ["Traffic", "TrafficOfBrokers"]

_BROKERS_MAX: Final = 1000
"""How many brokers have a count of their own: their ids come from a peer."""


class Traffic:
    """Requests with their bytes, and responses with theirs; bytes are without TLS."""

    __slots__ = ("bytes_in", "bytes_out", "requests", "responses")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests = 0
        self.responses = 0


class TrafficOfBrokers:
    """The traffic by broker id; bootstrap servers, whose id is not known yet, count as -1."""

    def __init__(self) -> None:
        self.by_node: dict[int, Traffic] = {}
        self.of_others = Traffic()

    def of(self, node_id: int) -> Traffic:
        """The traffic with one broker; that of too many has one count for all of the rest."""
        node_id = max(node_id, -1)
        if node_id not in self.by_node:
            if len(self.by_node) >= _BROKERS_MAX:
                return self.of_others
            self.by_node[node_id] = Traffic()
        return self.by_node[node_id]
