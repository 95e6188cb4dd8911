"""The background task of a member, and the errors that it hands to the iterator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn

from aioprod._short_reprs import shown_error
from aioprod.errors import AioprodError
from aioprod.group.fetcher import Fetcher
from aioprod.group.pattern_subscription import PatternSubscription
from aioprod.group.poll_gate import PollGate
from aioprod.group.runner import Runner

__all__ = ["BackgroundTask"]


class BackgroundTask:
    """Runs the membership, and keeps errors until the iterator raises them.

    It has no reference to the member, so that a member that is dropped without `close()` is noticed.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self.gate = PollGate(self.interrupt_poll, fetcher.available, fetcher.unfinished)
        self.errors: deque[Exception] = deque()
        """Raised one by one."""
        self.failure: BaseException | None = None
        """What ended the member."""
        self.is_closing = False
        self._closing = asyncio.Event()
        self._fetcher = fetcher

    async def run(
        self,
        runner: Runner,
        subscription: PatternSubscription,
        more: Iterable[Callable[[], Coroutine[Any, Any, None]]],
    ) -> None:
        """Keep the member in its group until it has left, and run `more` meanwhile; then return no more records."""
        try:
            # The topics of a pattern have to be known before the member joins: it would have to join a second time.
            await self._unless_closing(subscription.find_first())
            await runner.run(subscription.run(), *(one() for one in more))
        except Exception as error:
            self.failure = error
        finally:
            self.close()

    def end_polls(self) -> None:
        """Return no more records, and end a poll that waits for one."""
        self.is_closing = True
        self._closing.set()
        self.gate.end_polls()
        self.interrupt_poll()

    def close(self) -> None:
        """Return no more records, and let the partitions be revoked whatever the application does."""
        self.end_polls()
        self.gate.release()

    async def _unless_closing(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; cancel it when the member is closed."""
        task, closing = asyncio.create_task(work), asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([task, closing], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            for one in (task, closing):
                one.cancel()
            await asyncio.wait([task, closing])

    def raise_error(self) -> NoReturn:
        """Raise the next error, what has ended the member, or StopAsyncIteration when it is closed."""
        if self.errors:
            raise self.errors.popleft()
        if isinstance(self.failure, AioprodError):
            raise self.failure.again() from self.failure.__cause__
        if self.failure is not None:
            reason = shown_error(self.failure)
            raise AioprodError(f"The member has failed: {reason}.") from self.failure
        raise StopAsyncIteration

    def raise_later(self, error: Exception) -> None:
        """Raise this error from the next poll."""
        self._fetcher.available.withdraw()
        self.errors.append(error)
        self.interrupt_poll()

    def interrupt_poll(self) -> None:
        """Make a poll that waits for a record return."""
        if self.gate.is_polling:
            self._fetcher.interrupt()
