"""How long to wait before the next attempt."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

__all__ = ["JITTER", "Backoff"]

JITTER: Final = 0.2
"""Each delay is drawn from within this share of its nominal value, so that clients don't come back all at once."""

_DOUBLINGS_MAX: Final = 64


class Backoff(NamedTuple):
    """Delays in seconds that double from `initial_s` up to `max_s`, 20 % up or down by chance (KIP-144, KIP-580).

    None is longer than `max_s`, but at that limit, too, half of them are shorter: clients that failed together would
    otherwise come back together every `max_s`.
    """

    initial_s: float
    max_s: float

    def nominal_s(self, step: int) -> float:
        """The delay after `step` delays before it, not varied; `step` 0 gives `initial_s`."""
        return min(self.initial_s * 2.0 ** min(step, _DOUBLINGS_MAX), self.max_s)

    def delay_s(self, step: int, random: Random) -> float:
        """The delay after `step` delays before it; `step` 0 gives about `initial_s`."""
        return min(self.nominal_s(step) * random.uniform(1.0 - JITTER, 1.0 + JITTER), self.max_s)
