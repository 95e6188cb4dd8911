"""What a mechanism is: a generator that yields what the client sends, and is sent what the broker answered."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["SaslError", "Steps", "Work"]


@dataclass(frozen=True, slots=True, repr=False)
class Work:
    """A computation that takes too long for the event loop: run it in a thread, and send the result in."""

    run: Callable[[], bytes]


Steps: TypeAlias = Generator[bytes | Work, bytes, None]
"""Yields bytes for the broker, and is sent its answer; or yields `Work`, and is sent the result. It ends when the
mechanism is satisfied, and raises SaslError when the broker's answer is not acceptable."""


class SaslError(Exception):
    """The broker's part of the exchange is not acceptable."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        """What the broker did, as in "sent no salt"."""
