"""The states of a batch."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["BatchState"]


class BatchState(IntEnum):
    """Where a batch is. It only moves forward, except from IN_FLIGHT back to QUEUED for a retry."""

    OPEN = 0
    QUEUED = 1
    IN_FLIGHT = 2
    SETTLED = 3
