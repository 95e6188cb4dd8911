"""Times on a command line."""

from __future__ import annotations

import datetime
from argparse import ArgumentTypeError

__all__ = ["timestamp_ms"]


def timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch, given as such or in ISO 8601, in local time where that names no zone."""
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is not a time: write 2026-11-01T10:00, with Z or +01:00 for another zone, or milliseconds"
        ) from None
    return round(at.timestamp() * 1000)
