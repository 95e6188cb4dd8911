"""The form `by_duration:PT1H` of `auto.offset.reset` (KIP-1106)."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["age_ms", "by_duration"]

_FORM: Final = re.compile(
    r"by_duration:([+-]?)P(?=[+-]?\d|T)(?:([+-]?\d+)D)?"
    r"(?:T(?=[+-]?\d)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""`by_duration:PnDTnHnMn.nS`, each number with a sign, as Java's `Duration.parse` takes it."""


def by_duration(given: str) -> str:
    """`given` as it is stored; raises ValueError for another form, and for a duration that is negative."""
    if age_ms(given) < 0:
        raise ValueError("negative")
    prefix, duration = given.split(":")
    return f"{prefix.lower()}:{duration.upper()}"


def age_ms(setting: str) -> int:
    """The duration; raises ValueError for another form."""
    found = _FORM.fullmatch(setting)
    if found is None:
        raise ValueError("not a duration of ISO 8601")
    sign, days, hours, minutes, seconds, fraction = (part or "" for part in found.groups())
    whole_s = 86_400 * int(days or 0) + 3_600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    rest_ns = int(fraction.ljust(9, "0")) * (-1 if seconds.startswith("-") else 1)
    return (whole_s * 10**9 + rest_ns) * (-1 if sign == "-" else 1) // 10**6
