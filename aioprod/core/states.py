"""The states of a batch, as plain numbers: asking an enumeration costs a microsecond before Python 3.12.

A batch only moves forward, except from IN_FLIGHT back to QUEUED for a retry.
"""

from __future__ import annotations

from typing import Final

__all__ = ["IN_FLIGHT", "OPEN", "QUEUED", "SETTLED"]

OPEN: Final = 0
"""It takes records."""
QUEUED: Final = 1
"""It is closed and not on its way."""
IN_FLIGHT: Final = 2
"""It was given to a connection, and its outcome is open."""
SETTLED: Final = 3
"""Its outcome is decided."""
