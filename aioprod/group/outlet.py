"""What the iterator of a member hears of the group: errors to raise, and that the member is at its end."""

from __future__ import annotations

from collections import deque

from aioprod.group.fetcher import Fetcher
from aioprod.group.gate import Gate
from aioprod.group.runner import Runner

__all__ = ["Outlet"]


class Outlet:
    """Stands between what runs in the background and the iterator.

    Apart from the member, so that nothing that runs refers to that: one that its users let go of is noticed.
    `errors` are to be raised one by one, `failure` ended the member.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self.gate = Gate(self.look_again)
        self.errors: deque[Exception] = deque()
        self.failure: BaseException | None = None
        self.is_closing = False
        self._fetcher = fetcher

    async def run(self, runner: Runner, topics: frozenset[str]) -> None:
        """Let the member take part in its group until it has left; no record is given out after that."""
        try:
            await runner.run(topics)
        except Exception as error:
            self.failure = error
        finally:
            self.is_closing = True
            self.gate.open()
            self.look_again()

    def failed(self, error: Exception) -> None:
        """Raise this where the next record is asked for."""
        self.errors.append(error)
        self.look_again()

    def look_again(self) -> None:
        """Have the iterator that waits for a record come back."""
        if self.gate.is_waiting:
            self._fetcher.interrupt()
