"""The states of a batch, as plain numbers: an enumeration's member costs a microsecond before Python 3.12.

A batch only moves forward, except from IN_FLIGHT back to QUEUED for a retry.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COMPLETED", "IN_FLIGHT", "OPEN", "QUEUED"]

OPEN: Final = 0
"""It takes records."""
QUEUED: Final = 1
"""It takes no more records, and waits to be sent."""
IN_FLIGHT: Final = 2
"""It was given to a connection."""
COMPLETED: Final = 3
"""Its outcome is known."""
