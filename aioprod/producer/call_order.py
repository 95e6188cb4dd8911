"""The order of calls for a topic while a serializer is awaited for one of its records."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

__all__ = ["CallOrder", "Place"]


class CallOrder:
    """A line for each topic for which a record waits for its serializer: what is called later is accepted later.

    A topic has no line while nothing waits.
    """

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[Place, None]] = {}

    def topics(self) -> list[str]:
        """The topics that have a line now."""
        return list(self._lines)

    def is_waiting(self, topic: str) -> bool:
        """Whether earlier records of a topic wait."""
        return topic in self._lines

    def enter(self, topic: str) -> Place:
        """Take the last place in the line of a topic, in the running loop."""
        line = self._lines.setdefault(topic, OrderedDict())
        place = Place(self, topic)
        line[place] = None
        if len(line) == 1:
            place.wake()
        return place

    def leave(self, place: Place) -> None:
        """Leave a place, wherever in the line it is."""
        line = self._lines[place.topic]
        del line[place]
        if line:
            next(iter(line)).wake()
        else:
            del self._lines[place.topic]

    def close(self) -> None:
        """Wake all, to find that the producer is closed."""
        for line in self._lines.values():
            for place in line:
                place.wake()


class Place:
    """The place of one call in the line of a topic."""

    __slots__ = ("_is_first", "_order", "topic")

    def __init__(self, order: CallOrder, topic: str) -> None:
        self.topic = topic
        self._order = order
        self._is_first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def turn(self) -> None:
        """Wait until all earlier calls have left the line."""
        await self._is_first

    def wake(self) -> None:
        """It is this call's turn."""
        if not self._is_first.done():
            self._is_first.set_result(None)

    def leave(self) -> None:
        """Let the next call have its turn, which begins in a later iteration of the loop."""
        self._order.leave(self)
