"""Look-ups for records that failed: few requests for them, whatever schemas the records name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from aioprod.errors import SerializationError

__all__ = ["Failures"]

_KEPT_S: Final = 10.0
_COUNT_MAX: Final = 100


class Failures:
    """What failed in the last ten seconds is raised again, and at most a hundred look-ups fail in that time.

    Any writer of a topic can name schemas that don't exist. More look-ups wait until some of those are forgotten, as
    one of them may be for a schema that does exist.
    """

    def __init__(self, clock: Callable[[], float], pause: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._clock = clock
        self._pause = pause
        self._known: dict[Hashable, tuple[float, SerializationError]] = {}

    def check(self, key: Hashable) -> None:
        """Raise what the look-up of this key raised."""
        known = self._known.get(key)
        if known is not None and known[0] > self._clock():
            raise known[1].again()

    async def turn(self) -> None:
        """Wait until there may be a further look-up."""
        while self._known:
            oldest = next(iter(self._known))
            left_s = self._known[oldest][0] - self._clock()
            if left_s <= 0:
                del self._known[oldest]
            elif len(self._known) >= _COUNT_MAX:
                await self._pause(left_s)
            else:
                return

    def put(self, key: Hashable, error: SerializationError) -> None:
        """Keep what a look-up raised, without the frames that it was raised in; not what passes by itself."""
        if getattr(error, "is_passing", False):
            return
        kept = error.again()
        kept.__cause__ = None
        self._known.pop(key, None)  # The oldest come first.
        self._known[key] = self._clock() + _KEPT_S, kept
