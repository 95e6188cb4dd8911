"""Reporting where records are to those that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from aioprod.relay.columns import Rows
from aioprod.types import RecordMetadata

__all__ = ["UNWATCHED", "Outcomes"]


class Outcomes(Protocol):
    """Hears where records are, once they are in Kafka for good."""

    def wants(self, rows: Rows) -> bool:
        """Whether the place of any of these records matters: sending records so that it is known takes longer."""
        ...

    def delivered(self, rows: Rows, places: Sequence[RecordMetadata]) -> None:
        """These records are in Kafka, at these places; called for runs that were wanted."""
        ...


class _Unwatched:
    def wants(self, rows: Rows) -> bool:
        return False

    def delivered(self, rows: Rows, places: Sequence[RecordMetadata]) -> None:
        raise AssertionError("Nothing waits for these places.")


UNWATCHED: Final[Outcomes] = _Unwatched()
"""For sources whose records have no waiters."""
