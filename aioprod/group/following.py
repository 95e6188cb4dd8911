"""The topics whose names match a pattern, as they come and go."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress

from aioprod.errors import RequestTimedOutError
from aioprod.group.settings import MemberConfig
from aioprod.net.session import Session
from aioprod.reader.asking import all_topics

__all__ = ["Following"]

_log = logging.getLogger("aioprod.group")


class Following:
    """Asks for all topics once in `metadata.max.age.ms`, and tells those that match when they are others than before.

    Names have to match from their first to their last letter, and are compared here, as Java's consumer does it with a
    `java.util.regex.Pattern`. Kafka's own topics are left out unless `exclude.internal.topics` is false.
    """

    def __init__(
        self,
        session: Session,
        config: MemberConfig,
        pattern: re.Pattern[str] | None,
        tell: Callable[[frozenset[str]], None],
    ) -> None:
        self._session = session
        self._excludes_internal = config.exclude_internal_topics
        self._every_s = config.metadata_max_age_ms / 1000
        self._pattern = pattern
        self._tell = tell
        self._told: frozenset[str] | None = None
        self._news = asyncio.Event()

    def follow(self, pattern: re.Pattern[str] | None) -> None:
        """Tell what matches this one from now on; None: nothing any more."""
        self._pattern = pattern
        self._told = None
        self._news.set()

    async def run(self) -> None:
        """Go on after `begin` for as long as the member lives; raises what a request may raise that no further try
        mends."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._pattern is None else self._every_s):
                    await self._news.wait()
            self._news.clear()
            await self._look()

    async def begin(self) -> None:
        """Tell what matches now, for the first time; waits for brokers that are away."""
        while self._pattern is not None and self._told is None:
            await self._look()

    async def _look(self) -> None:
        pattern = self._pattern
        if pattern is None:
            return
        found = await self._matching(pattern)
        if found is not None and self._pattern is pattern and found != self._told:
            self._told = found
            self._tell(found)

    async def _matching(self, pattern: re.Pattern[str]) -> frozenset[str] | None:
        """The topics, None when nobody answered in time."""
        try:
            answer = await all_topics(self._session, self._session.clock() + self._session.timeout_s)
        except RequestTimedOutError as error:
            _log.warning("The topics that match %r are not known yet: %s", pattern.pattern, error.message)
            return None
        found = frozenset(
            topic.name
            for topic in answer.topics
            if topic.name and pattern.fullmatch(topic.name) and not (topic.is_internal and self._excludes_internal)
        )
        if not found:
            _log.warning("No topic matches %r; the next look is in %g s.", pattern.pattern, self._every_s)
        return found
