"""An iterator over lists of records of a member, or over Arrow record batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from aioprod.errors import ConfigError

__all__ = ["Batches"]

BatchT = TypeVar("BatchT")


class Batches(Generic[BatchT]):
    """An asynchronous iterator over batches of records, which `fetch` returns; raises ConfigError.

    It keeps no records itself: when a call is cancelled, the next one returns those that were gathered, also from
    another iterator over the same member.
    """

    def __init__(
        self,
        begin: Callable[[], None],
        fetch: Callable[[int, float], Awaitable[BatchT]],
        max_records: object,
        max_wait_ms: object,
    ) -> None:
        if isinstance(max_records, bool) or not isinstance(max_records, int) or max_records < 1:
            raise ConfigError(f"max_records is {max_records!r:.60}: give the most records, an int from 1 on.")
        if isinstance(max_wait_ms, bool) or not isinstance(max_wait_ms, (int, float)) or not max_wait_ms >= 0:
            raise ConfigError(f"max_wait_ms is {max_wait_ms!r:.60}: give a time in ms, from 0 on.")
        self._begin = begin
        """Called when a loop begins."""
        self._fetch = fetch
        self._max_records = max_records
        self._max_wait_s = max_wait_ms / 1000

    def __aiter__(self) -> Self:
        self._begin()
        return self

    def __anext__(self) -> Awaitable[BatchT]:
        """The next batch, which is never empty; raises what the member's `__anext__` raises."""
        return self._fetch(self._max_records, self._max_wait_s)
