"""Where a member begins that finds no committed offset, or whose log does not have it: `auto.offset.reset`."""

from __future__ import annotations

from aioprod.config._durations import age_ms
from aioprod.reader.offsets import EARLIEST, LATEST, Lookup
from aioprod.types import TopicPartition

__all__ = ["OffsetReset"]


class OffsetReset:
    """A value of `auto.offset.reset`: what is looked up in each partition, or an error.

    With `by_duration:PT1H` (KIP-1106) a partition begins at the first record that is not older than an hour now, and at
    its end where all are older. The end is looked up first, so that no record is left out that is stored meanwhile.
    """

    def __init__(self, setting: str) -> None:
        self._setting = setting

    @property
    def is_error(self) -> bool:
        """Whether nothing is looked up: the member raises an error."""
        return self._setting == "none"

    def lookup(self, tp: TopicPartition, now: float) -> Lookup:
        """What to look up to begin in a partition; `now` is in seconds since the epoch."""
        if self._setting in ("earliest", "latest"):
            return Lookup(tp, timestamp=EARLIEST if self._setting == "earliest" else LATEST)
        return Lookup(tp, timestamp=LATEST, since=max(int(now * 1000) - age_ms(self._setting), 0))
