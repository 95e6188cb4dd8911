"""A subscription by pattern: the topics whose names match, as they are created and deleted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress

from aioprod.calls.any_broker import all_topics
from aioprod.calls.session import Session
from aioprod.cluster.names import topic_name_error
from aioprod.errors import BrokerError, ErrorCode, RequestTimedOutError
from aioprod.group.config import MemberConfig
from aioprod.group.member_log import MemberLog

__all__ = ["PatternSubscription"]


class PatternSubscription:
    """Fetches all topics every `metadata.max.age.ms`, and calls `on_change` when other topics match than before.

    A name has to match from its first to its last letter, and is compared here, as Java's consumer does it with a
    `java.util.regex.Pattern`. Kafka's own topics are left out unless `exclude.internal.topics` is false.
    """

    def __init__(
        self,
        log: MemberLog,
        session: Session,
        config: MemberConfig,
        pattern: re.Pattern[str] | None,
        on_change: Callable[[frozenset[str]], None],
    ) -> None:
        self._log = log
        self._session = session
        self._excludes_internal = config.exclude_internal_topics
        self._every_s = config.metadata_max_age_ms / 1000
        self._pattern = pattern
        self._on_change = on_change
        self._reported: frozenset[str] | None = None
        self._pattern_changed = asyncio.Event()

    def set_pattern(self, pattern: re.Pattern[str] | None) -> None:
        """Subscribe to what matches this pattern from now on; None ends the subscription by pattern."""
        self._pattern = pattern
        self._reported = None
        self._pattern_changed.set()

    async def run(self) -> None:
        """Look for matching topics after `find_first`, until cancelled; raises errors that no retry mends."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._pattern is None else self._every_s):
                    await self._pattern_changed.wait()
            self._pattern_changed.clear()
            await self._look()

    async def find_first(self) -> None:
        """Report the topics that match now; waits until a broker answers."""
        while self._pattern is not None and self._reported is None:
            await self._look()

    async def _look(self) -> None:
        pattern = self._pattern
        if pattern is None:
            return
        found = await self._matching(pattern)
        if found is not None and self._pattern is pattern and found != self._reported:
            self._reported = found
            self._on_change(found)

    async def _matching(self, pattern: re.Pattern[str]) -> frozenset[str] | None:
        """The topics, None when no broker answered in time."""
        try:
            response = await all_topics(self._session, self._session.clock() + self._session.timeout_s)
        except (RequestTimedOutError, BrokerError) as error:
            if isinstance(error, BrokerError) and not ErrorCode.is_unclear(error.code):
                raise
            self._log.warning("does not know yet which topics match %r: %s", pattern.pattern, error.message)
            await asyncio.sleep(self._session.backoff_s(0))
            return None
        found = frozenset(
            topic.name
            for topic in response.topics
            if topic.name
            and topic_name_error(topic.name) is None
            and pattern.fullmatch(topic.name)
            and not (topic.is_internal and self._excludes_internal)
        )
        if not found:
            self._log.warning("finds no topic that matches %r; it looks again in %g s", pattern.pattern, self._every_s)
        return found
