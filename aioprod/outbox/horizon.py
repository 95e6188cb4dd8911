"""Up to which id all rows of a table in Postgres are decided: committed, rolled back, or never put.

A transaction has its own id before it draws one for a row, and ids are drawn one by one. So what drew an id up to the
last one that a look has seen has a lower transaction id than the next one that the look has seen after it. When all
transactions below that have ended, the ids up to the last one are decided. Rows are read in the order of ids, which is
that of `put` wherever transactions wait for each other, also where the later one has the lower transaction id.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

__all__ = ["Horizon", "Look"]

_LOOKS_MAX: Final = 1000


class Look(NamedTuple):
    """What was seen at one time."""

    last_id: int
    """The last id that was drawn, read before the others."""
    xmin: int
    """All transactions below have ended, of all databases."""
    next_xid: int
    """The transaction id that is given next. (The snapshot's xmax is none: those that run may be above it.)"""


class Horizon:
    """The last id up to which all are decided."""

    def __init__(self) -> None:
        self.id = 0
        self._looks: deque[Look] = deque()
        """Those whose last id is not decided yet."""

    @property
    def is_waiting(self) -> bool:
        """Whether ids were drawn that are not decided yet."""
        return bool(self._looks)

    def add(self, look: Look) -> None:
        """Take what was seen."""
        looks = self._looks
        newest = looks[-1].last_id if looks else self.id
        if look.last_id < newest:  # Ids were reset: those that were decided come again.
            looks.clear()
            self.id = newest = 0
        if look.last_id > newest:
            if len(looks) >= _LOOKS_MAX:
                looks.pop()  # The ids that it stood for are decided with those of this one.
            looks.append(look)
        while looks and looks[0].next_xid <= look.xmin:
            self.id = looks.popleft().last_id
