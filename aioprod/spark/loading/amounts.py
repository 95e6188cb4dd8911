"""Rates as people write them: 50MB/s, 512 KiB."""

from __future__ import annotations

import math
import re
from typing import Final

from aioprod.errors import ConfigError

__all__ = ["bytes_s"]

_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*?)\s*(?:/\s*s)?\s*", re.IGNORECASE)


def bytes_s(rate: str | float | None) -> float | None:
    """A rate in bytes per second, of a number or a text such as "50MB/s"; None stays None. Raises ConfigError."""
    if rate is None:
        return None
    number: float | None = None
    if isinstance(rate, str):
        match = _RATE.fullmatch(rate)
        if match is not None and match[2].lower() in _UNITS:
            number = float(match[1]) * _UNITS[match[2].lower()]
    elif isinstance(rate, int | float) and not isinstance(rate, bool):
        number = float(rate)
    if number is None or not math.isfinite(number) or number <= 0:
        raise ConfigError(
            f"rate is {rate!r}: it must be bytes per second above 0, for all tasks together.",
            hint="Write a number, or a text such as '50MB/s' or '512KiB/s'.",
        )
    return number
