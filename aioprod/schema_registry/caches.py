"""What keeps look-ups few: calls that share one flight, and a bounded cache."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

from aioprod.errors import AioprodError, UsageError

__all__ = ["LruCache", "SingleFlight", "other_loop"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_CHARACTERS_MAX: Final = 16_777_216
"""Of a registry's schemas, as 1,000 may be small, or 1 MiB each."""


def other_loop() -> UsageError:
    """The error of a registry, or of what uses it, that is shared by event loops."""
    return UsageError(
        "A SchemaRegistry is used in another event loop than before.", hint="Make one for each event loop."
    )


class SingleFlight:
    """Concurrent calls of the same key share one task.

    A caller that is cancelled leaves the task to the others, so the work has to end by itself.
    """

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The result of the work that runs for `key`, which is started if there is none; its errors propagate.

        Raises UsageError if the work is cancelled, and not the caller, and if it runs in another event loop.
        """
        task = self.start(key, work)
        if task.get_loop() is not asyncio.get_running_loop():
            raise other_loop()
        try:
            return await asyncio.shield(task)
        except AioprodError as error:
            raise error.again() from error.__cause__
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise UsageError("The SchemaRegistry was closed during a request.") from None
            raise

    def start(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, V]]) -> asyncio.Task[V]:
        """The task that runs for `key`, which is started if there is none."""
        task = self._tasks.get(key)
        if task is None or task.done():
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # Seen, also where all callers were cancelled.

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Cancel what runs, and return it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        return tasks


class LruCache(Generic[K, V]):
    """At most `count_max` values, of so many characters of schemas; those not used for longest make room."""

    def __init__(self, count_max: int, characters_max: int = _CHARACTERS_MAX) -> None:
        self._count_max = count_max
        self._characters_left = characters_max
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, None without one."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, characters: int) -> None:
        """Add a value; it is kept until the next one also where it alone is too large."""
        _, before = self._values.pop(key, (None, 0))
        self._values[key] = value, characters
        self._characters_left += before - characters
        while len(self._values) > self._count_max or (self._characters_left < 0 and len(self._values) > 1):
            _, (_, removed) = self._values.popitem(last=False)
            self._characters_left += removed
