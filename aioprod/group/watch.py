"""Warns in the log of what holds a member up, again and again, and tells when it is over."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aioprod.group.explain import Trouble

__all__ = ["AGAIN_S", "LOOK_S", "Watch"]

log = logging.getLogger("aioprod.group")

LOOK_S: Final = 5.0
"""How long it takes from one look to the next."""
AGAIN_S: Final = 30.0
"""After so long the log is told again of what has not changed."""


@dataclass(slots=True)
class _Noted:
    """Since when there is some trouble, and when the log was told of it last."""

    since: float
    told_at: float = -math.inf


class Watch:
    """Looks at the `troubles` of a member of a group once in a while; one that is seen twice has lasted so long."""

    def __init__(self, group_id: str, troubles: Callable[[], Iterable[Trouble]], clock: Callable[[], float]) -> None:
        self._group_id = group_id
        self._troubles = troubles
        self._clock = clock
        self._noted: dict[str, _Noted] = {}

    async def run(self) -> None:
        """Look for as long as the member lives."""
        while True:
            self.look(self._clock())
            await asyncio.sleep(LOOK_S)

    def look(self, now: float) -> None:
        """Warn of what lasts for longer than it may, and tell what of that is over."""
        troubles = {trouble.about: trouble for trouble in self._troubles()}
        for about in self._noted.keys() - troubles.keys():
            noted = self._noted.pop(about)
            if noted.told_at > -math.inf:
                log.info(
                    "Member of group %r waits for %s no more, after %.0f s", self._group_id, about, now - noted.since
                )
        for about, trouble in troubles.items():
            noted = self._noted.setdefault(about, _Noted(now))
            lasted_s = now - noted.since
            # A timer may be early by less than the clock can tell.
            if lasted_s >= trouble.patience_s - LOOK_S / 2 and now >= noted.told_at + AGAIN_S - LOOK_S / 2:
                noted.told_at = now
                log.warning(
                    "Member of group %r has waited for %s for %.0f s: %s", self._group_id, about, lasted_s, trouble.says
                )
