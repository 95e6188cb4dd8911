"""What a relay takes records from: anything that has positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from aioprod.metrics.families import Family
from aioprod.types import ProducerRecord

__all__ = ["ExclusiveSource", "MeasuredSource", "NotedSource", "Source"]


class Source(Protocol):
    """Records in an order that stays, each with a position that is found again after a crash.

    `delivered` may be called while `read` or `wait` run. An OSError or AioprodError that one raises is logged, and the
    relay starts again after a pause, but for those that no repetition mends, such as MarkerError and ConfigError: they
    end it, as does any other exception.
    """

    @property
    def owner(self) -> str:
        """Whose positions these are. It is compared with the marker's, so each source has an owner of its own."""
        ...

    async def read(self, after: bytes | None, limit: int) -> Sequence[tuple[ProducerRecord, bytes]]:
        """The next records and their positions: `limit` at most, or fewer, for instance to bound their bytes.

        `after` is the position of the record before them, None for the first record of all; it may be read again. An
        empty sequence means that there are none yet. Raises MarkerError where `after` is no position of this source, or
        where records behind it are gone: it was restored from a copy, or reset.
        """
        ...

    async def wait(self) -> None:
        """Return when there may be more records than the last `read` returned; at once if some came since."""
        ...

    async def delivered(self, position: bytes) -> None:
        """Everything up to this position is in Kafka for good, and will not be read again."""
        ...


@runtime_checkable
class ExclusiveSource(Protocol):
    """A source whose records one process at a time may bring to Kafka. It has this method beside those of `Source`."""

    async def acquire(self) -> None:
        """Return when this process may: called before each start of a producer, which fences that of another process.

        What it raises is as of `Source`. A source that loses the right raises in `read` or `wait`.
        """
        ...


@runtime_checkable
class NotedSource(Protocol):
    """A source that notes up to where its records are in Kafka. It has this method beside those of `Source`."""

    async def noted(self) -> bytes | None:
        """The last position that `delivered` was given, or an earlier one; None before the first.

        A relay without a marker, which is one with `delivery="at-least-once"`, begins behind it. Raises as `read` does.
        """
        ...


@runtime_checkable
class MeasuredSource(Protocol):
    """A source that measures itself: its relay's metrics have these. It has the methods beside those of `Source`."""

    def metrics(self) -> dict[str, float]:
        """The present value of every metric, by a name that no metric of relays and producers has."""
        ...

    def metric_families(self) -> list[Family]:
        """The same for monitoring systems."""
        ...
