"""`Check`: its expected result on each release, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from aioprod.errors import UnsupportedVersionError
from integration.brokers.broker import Broker, Release, release_of

__all__ = ["PATIENCE_S", "Check", "Found", "Outcome", "carried_out"]

PATIENCE_S: Final = 300.0
"""A check that takes longer hangs."""
_SAID_MAX: Final = 600

Outcome = Literal["ok", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is tried on every version; `run` raises when it does not work.

    On brokers older than `since` it has to be refused: by an UnsupportedVersionError that names that release.
    """

    name: str
    run: Callable[[Broker], Awaitable[None]]
    since: Release | None = None

    def is_refused_by(self, name: str) -> bool:
        """Whether the broker of that name is too old for it."""
        return self.since is not None and release_of(name) < self.since


class Found(NamedTuple):
    """What became of a check; `as_expected` is False for a flaw. `said` is the error, empty for "ok"."""

    outcome: Outcome
    as_expected: bool
    said: str = ""


async def carried_out(check: Check, broker: Broker) -> Found:
    """Try one check on one broker."""
    is_refused = check.is_refused_by(broker.name)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await check.run(broker)
    except UnsupportedVersionError as error:
        return _refused(error, check.since if is_refused else None)
    except TimeoutError as error:
        return Found("failed", False, f"It has not ended, or waited too long: {_text(error)}")
    except Exception as error:
        return Found("failed", False, _text(error))
    if is_refused:
        return Found("ok", False, f"It should be refused on brokers before {_dotted(check.since)}.")
    return Found("ok", True)


def _refused(error: UnsupportedVersionError, since: Release | None) -> Found:
    if since is None:
        return Found("refused", False, _text(error))
    names_release = _dotted(since) in str(error)
    text = _text(error) if names_release else f"The refusal does not say {_dotted(since)}: {_text(error)}"
    return Found("refused", names_release, text)


def _dotted(release: Release | None) -> str:
    return ".".join(map(str, release or ()))


def _text(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        return "; ".join(_text(one) for one in error.exceptions)[:_SAID_MAX]
    return f"{type(error).__name__}: {error}"[:_SAID_MAX]
