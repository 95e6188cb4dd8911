"""Produce quotas: the broker mutes the connections of clients that exceed theirs (KIP-219)."""

from __future__ import annotations

from typing import Final

__all__ = ["Quota"]

_WINDOW_S: Final = 1.0
"""How much may be sent in a burst, as a time at the quota's rate."""


class Quota:
    """The produce rate that all clients of one broker share, in bytes per second."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._paid_until = 0.0

    def charge(self, size: int, now: float) -> float:
        """Count `size` bytes; returns for how many seconds the broker reads nothing more from the client."""
        self._paid_until = max(self._paid_until, now) + size / self.bytes_per_s
        return max(0.0, self._paid_until - now - _WINDOW_S)
