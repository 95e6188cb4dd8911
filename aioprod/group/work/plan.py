"""What `Member.work` was called with, checked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from aioprod.errors import ConfigError
from aioprod.group.work.dead_letters import DeadLetters
from aioprod.group.work.retry import Retry
from aioprod.types import ConsumedRecord

__all__ = ["Handler", "Order", "Plan", "check_topics", "checked_plan"]

Handler: TypeAlias = Callable[[ConsumedRecord], Awaitable[Any]]
Order: TypeAlias = Literal["key", "partition"] | None

_ORDERS: Final = ("key", "partition", None)
_CONCURRENCY_MAX: Final = 100_000


class Plan(NamedTuple):
    """How records are worked on."""

    handler: Handler
    concurrency: int
    """How many handlers run at once at most."""
    order: Order
    """What keeps the order of its records."""
    retry: Retry
    dead_letters: DeadLetters | None
    drain_s: float
    """How long handlers may continue when their partition is revoked."""
    buffer_bytes: int
    """The room for records that were received and are not finished."""


def checked_plan(
    handler: object,
    concurrency: object,
    order: object,
    retry: object,
    dead_letters: object,
    drain_s: object,
    buffer_bytes: object,
    *,
    topics: frozenset[str],
    pattern: re.Pattern[str] | None,
) -> Plan:
    """The plan for a member that reads these topics; raises ConfigError."""
    if not callable(handler) or not _is_async(handler):
        raise ConfigError(
            f"The handler is {handler!r:.60}: give an async function of one record.",
            hint="Call what blocks by `await asyncio.to_thread(...)` within one.",
        )
    _check_integer("concurrency", concurrency, _CONCURRENCY_MAX, "how many handlers run at once")
    _check_integer("buffer_bytes", buffer_bytes, 2**40, "how many bytes of records are held")
    if order not in _ORDERS:
        raise ConfigError(f"order is {order!r:.60}: give 'key', 'partition' or None.")
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigError(f"retry is {retry!r:.60}: give a Retry(times, backoff_s), or leave it out.")
    if dead_letters is not None and not isinstance(dead_letters, DeadLetters):
        raise ConfigError(f"dead_letters is {dead_letters!r:.60}: give a DeadLetters(topic, producer).")
    if isinstance(drain_s, bool) or not isinstance(drain_s, (int, float)) or not 0.0 <= drain_s < float("inf"):
        raise ConfigError(f"drain_s is {drain_s!r:.60}: give a time in seconds, from 0 on.")
    plan = Plan(handler, concurrency, order, retry or Retry(times=0), dead_letters, drain_s, buffer_bytes)  # type: ignore[arg-type]  # checked above
    check_topics(plan, topics, pattern)
    return plan


def check_topics(plan: Plan, topics: frozenset[str], pattern: re.Pattern[str] | None) -> None:
    """Raise ConfigError for a subscription that has the topic of the dead letters."""
    letters = plan.dead_letters
    if letters is not None and (letters.topic in topics or (pattern is not None and pattern.fullmatch(letters.topic))):
        raise ConfigError(
            f"dead_letters has topic {letters.topic!r}, which this member reads: each letter would be handled again.",
            hint="Give the letters a topic of their own.",
        )


def _check_integer(name: str, given: object, most: int, what: str) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
        raise ConfigError(f"{name} is {given!r:.60}: give {what}, an int from 1 on.")


def _is_async(handler: object) -> bool:
    while isinstance(handler, partial):
        handler = handler.func
    # A method of the type: `handler.__call__` is one for each function, whatever it is.
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
