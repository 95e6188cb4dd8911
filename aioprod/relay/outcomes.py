"""Reporting where records are to those that wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from aioprod.relay.columns import Rows
from aioprod.types import RecordMetadata

__all__ = ["UNWATCHED", "Outcomes"]


class Outcomes(Protocol):
    """Is notified of where records are, once they are in Kafka for good."""

    def awaited(self, rows: Rows) -> Sequence[int]:
        """The indexes of the records whose places a caller waits for, ascending."""
        ...

    def delivered(self, rows: Rows, places: Mapping[int, RecordMetadata]) -> None:
        """These records are in Kafka for good; those that are awaited are at these places, by their indexes."""
        ...


class _Unwatched:
    def awaited(self, rows: Rows) -> Sequence[int]:
        return ()

    def delivered(self, rows: Rows, places: Mapping[int, RecordMetadata]) -> None:
        """No one waits for places."""


UNWATCHED: Final[Outcomes] = _Unwatched()
"""For sources whose records have no waiters."""
