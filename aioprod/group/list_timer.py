"""The time for which a list waits for more records after its first one."""

from __future__ import annotations

import asyncio

from aioprod.calls.session import Session

__all__ = ["ListTimer"]


class ListTimer:
    """Runs from the first record of a list, also over calls that were cancelled, and wakes the session when it ends."""

    def __init__(self, session: Session) -> None:
        self.is_due = False
        """The list is to be returned, even if it is not full."""
        self._session = session
        self._began_at: float | None = None
        self._handle: asyncio.TimerHandle | None = None

    def reset(self) -> None:
        """There is no record yet."""
        self._began_at, self.is_due = None, False

    def start(self, max_wait_s: float) -> None:
        """A call waits for more records; a second time this does nothing."""
        if self._handle is not None:
            return
        now = self._session.clock()
        if self._began_at is None:
            self._began_at = now
        left_s = self._began_at + max_wait_s - now
        self.is_due = left_s <= 0.0
        self._handle = asyncio.get_running_loop().call_later(max(0.0, left_s), self._on_due)

    def stop(self) -> None:
        """The call ends."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _on_due(self) -> None:
        self.is_due = True
        self._session.notify()
