"""Which relay of a transactional id is the last one: each writes a name of its own into the marker."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from aioprod.errors import ProducerFencedError

__all__ = ["Claim", "ReplacedError"]


class ReplacedError(ProducerFencedError):
    """Another relay has taken over, and must not be fenced."""


class Claim:
    """The name of one relay, and those that say nothing of a successor."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self.name: Final = uuid4().hex[:16]
        self._before = ""

    def begins_after(self, name: str) -> None:
        """The marker has this name when the relay begins: it is a predecessor's until this one has written its own."""
        self._before = name

    def was_written(self) -> None:
        """The marker has the name of this relay: any other one that comes later is a successor's."""
        self._before = ""

    def check(self, last: str) -> None:
        """Raise ReplacedError if the last marker has a successor's name; "" is no marker.

        Brokers answer the same after a transaction that took too long. The marker shows which relay wrote it.
        """
        if last not in ("", self.name, self._before):
            raise ReplacedError(
                f"Another relay with the transactional.id {self._transactional_id!r} has taken over, and this one "
                "stops.",
                hint="Run one for each source.",
            )
