"""Where a row is in its table, and whether the table is still the one whose rows were sent."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, Self

from aioprod._short_reprs import shown
from aioprod.errors import MarkerError

__all__ = ["Position", "TableState", "check", "only_row"]

_POSITION: Final = re.compile(rb"(\d{1,19})\.([0-9a-f]{1,8})")
_SEE: Final = (
    "Compare the last records in Kafka with the table; then set the marker, or empty the outbox, and start again."
)


class Position(NamedTuple):
    """That of a row. A database that was restored from a copy gives an id again, but with another token."""

    id: int
    token: int

    def to_bytes(self) -> bytes:
        """As relays have it, and the table's note."""
        return b"%d.%x" % self

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read a position; raises MarkerError."""
        found = _POSITION.fullmatch(data)
        if found is None:
            raise MarkerError(
                f"The marker has the position {shown(data)}, and those of an outbox are `id.token`.", hint=_SEE
            )
        return cls(int(found[1]), int(found[2], 16))


class TableState(NamedTuple):
    """What a table knows of the rows up to a position."""

    last_id: int
    """The highest id that any row has ever had, 0 before the first one."""
    delivered: Position | None
    """The note: up to here all is in Kafka, and may have been deleted."""
    token: int | None
    """The token of the row with the position's id; None where there is no such row."""


def only_row(relay: str, rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """What the table with a relay's note says; raises MarkerError where others have emptied it."""
    if not rows:
        raise MarkerError(
            f"The row of {relay}, which says up to where rows were delivered, is gone: was the table emptied while a "
            "relay ran?",
            hint=_SEE,
        )
    return rows[0]


def check(table: str, position: Position | None, state: TableState) -> None:
    """Raise MarkerError unless the rows behind a position are all that is not in Kafka yet.

    None is the position before the first row.
    """
    delivered = state.delivered
    if position is None:
        if delivered is not None:
            raise MarkerError(
                f"Rows of {table} up to {delivered.id} were sent and deleted, and the marker that says so is gone: it "
                "goes with its topic, or after offsets.retention.minutes in which no relay ran.",
                hint=_SEE,
            )
        return
    if position == delivered and position.id <= state.last_id:
        return
    if delivered is not None and position.id < delivered.id:
        raise MarkerError(
            f"The marker is at row {position.id}, and the rows of {table} up to {delivered.id} were sent and deleted: "
            "was the marker set back?",
            hint=_SEE,
        )
    if state.token != position.token:
        why = (
            f"ids end at {state.last_id}"
            if position.id > state.last_id
            else "that row is gone"
            if state.token is None
            else "that row is another one"
        )
        raise MarkerError(
            f"Rows of {table} up to {position.id} are in Kafka, and in the table {why}: was the database restored from "
            "a copy, or were rows deleted? What was put in the time between may be in Kafka only.",
            hint=_SEE,
        )
