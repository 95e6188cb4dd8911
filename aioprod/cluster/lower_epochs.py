"""When a leader epoch below the remembered one is believed, so that the effect of one wrong answer ends.

A broker that lags behind names a lower epoch for a moment, and is not believed (KIP-320). One that was restored from a
backup, or that lied once about a higher one, leaves an epoch that no true answer reaches again.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["LowerEpochs"]

_ANSWERS: Final = 3
"""So many answers have to name a lower epoch, with none between them that names a higher one."""

_APART_S: Final = 1.0
"""How far apart they have to be: a broker lags behind for less than that."""

_NAMED_MAX: Final = 4
"""How many epochs of one partition are counted."""


class LowerEpochs:
    """Counts the answers that name a lower epoch of a topic's partitions. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._named: dict[int, dict[int, tuple[int, float]]] = {}

    def is_believed(self, index: int, epoch: int, now: float) -> bool:
        """An answer names this `epoch`, which is below the remembered one. Returns whether it replaces that.

        Answers that come sooner do not count; nor do those of a broker that lags behind the ones that count.
        """
        named = self._named.setdefault(index, {})
        for lower in [one for one in named if one < epoch]:
            del named[lower]
        count, last = named.get(epoch, (0, -math.inf))
        if now - last >= _APART_S:
            named[epoch] = count + 1, now
        if len(named) > _NAMED_MAX:
            del named[max(named)]
        if named[epoch][0] < _ANSWERS:
            return False
        del self._named[index]
        return True

    def forget(self, index: int) -> None:
        """An answer names the remembered epoch, or a higher one."""
        self._named.pop(index, None)
