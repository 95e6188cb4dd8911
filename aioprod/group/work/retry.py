"""How often a handler that fails gets its record again, and when."""

from __future__ import annotations

from dataclasses import dataclass

from aioprod.errors import ConfigError
from aioprod.net.protocol.backoff import Backoff

__all__ = ["Retry"]


@dataclass(frozen=True, slots=True)
class Retry:
    """A record whose handler has failed comes again up to `times` times; only records of its key wait meanwhile.

    `backoff_s` is the first delay and the longest one, in seconds: it doubles with each failure.
    Raises ConfigError.
    """

    times: int = 5
    backoff_s: tuple[float, float] = (1.0, 60.0)

    def __post_init__(self) -> None:
        if isinstance(self.times, bool) or not isinstance(self.times, int) or self.times < 0:
            raise ConfigError(f"Retry has times={self.times!r:.60}: give the number of retries, an int from 0 on.")
        try:
            first, longest = map(float, self.backoff_s)
        except (TypeError, ValueError):
            first = longest = -1.0
        if not 0.0 <= first <= longest < float("inf"):
            raise ConfigError(
                f"Retry has backoff_s={self.backoff_s!r:.60}: give the first delay and the longest one in seconds."
            )

    def delay_s(self, failures: int) -> float:
        """The delay after so many failures, from 1 on."""
        return Backoff(*self.backoff_s).nominal_s(failures - 1)
