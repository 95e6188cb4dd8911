"""The position of a partition that is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from aioprod.calls.leaders import PendingPartition
from aioprod.cluster import Cluster

__all__ = ["ENDLESS", "Position"]

ENDLESS: Final = 2**63 - 1
"""The `end` of a partition that is read without an end."""


@dataclass(slots=True, eq=False, kw_only=True)
class Position(PendingPartition):
    """The position of a partition."""

    offset: int
    """The next one to read."""
    end: int
    """The offset after the last one to read."""
    topic_id: UUID | None = None
    """None where the cluster has no ids."""
    turn: int = 0
    """The number of the last response with records: without a fetch session partitions with the lowest one come first
    in the next request."""

    @property
    def is_done(self) -> bool:
        return self.offset >= self.end

    def is_replaced(self, cluster: Cluster) -> bool:
        """Whether the topic was deleted and created again."""
        topic_id = cluster.topic_id(self.tp.topic)
        return self.topic_id is not None and topic_id is not None and topic_id != self.topic_id
