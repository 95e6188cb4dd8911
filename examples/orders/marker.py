"""The marker: how far a relay's transactions have come in Kafka. `aioprod.spark` has the same for its micro-batches.

It is the offset of a group that has no other use, `aioprod-eos.<transactional id>`: the number of the next row to send,
with `<owner of the outbox>:<id of the row before it>` as its text. It is
committed in the transaction of the rows before it, so that it is there exactly if they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aioprod import OffsetAndMetadata
from examples.orders.database import OutboxRow, OutboxState

__all__ = ["MarkerError", "Position", "group_of", "marker_of", "next_row", "rows_after"]


class MarkerError(Exception):
    """Marker and outbox don't belong together. Nothing is sent on a guess: an operator has to look."""


class Position(NamedTuple):
    """How far a relay has come: the number of the next row, and the id of the row before it, "" if it is unknown."""

    number: int
    last_id: str = ""


def group_of(transactional_id: str) -> str:
    """The group whose offset is the marker."""
    return f"aioprod-eos.{transactional_id}"


def marker_of(position: Position, owner: str) -> OffsetAndMetadata:
    """What is committed with the rows before this position."""
    return OffsetAndMetadata(position.number, f"{owner}:{position.last_id}" if position.last_id else owner)


def next_row(found: OffsetAndMetadata | None, outbox: OutboxState, transactional_id: str) -> Position:
    """Where to continue; `found` was read after earlier relays were fenced. Raises MarkerError."""
    group = group_of(transactional_id)
    if found is None:
        if outbox.has_begun:
            raise MarkerError(
                f"The marker of the outbox, an offset of the group {group!r}, is gone: it goes with its topic, and "
                "after offsets.retention.minutes in which no relay ran. Look which row was sent last, and set the "
                "group's offset for partition 0 of the topic to the number of the next one."
            )
        return Position(0)
    owner, _, last_id = found.metadata.partition(":")
    if owner not in (outbox.owner, ""):
        raise MarkerError(
            f"The group {group!r} has the marker of another outbox, {owner!r}, and this one is "
            f"{outbox.owner!r}: give each database a TRANSACTIONAL_ID of its own."
        )
    if found.offset > outbox.next:
        raise MarkerError(
            f"Rows up to {found.offset - 1} are in Kafka, and the outbox ends at {outbox.next - 1}: was the database "
            "restored from a copy? Orders of the time between are in Kafka only."
        )
    return Position(found.offset, last_id)


def rows_after(position: Position, rows: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    """Those of these rows that are to be sent. The row before them is still there after a crash, and must be the one
    that was sent; raises MarkerError if it is another one.
    """
    if not rows or rows[0].number >= position.number:
        return rows
    if position.last_id not in (rows[0].id, ""):
        raise MarkerError(
            f"Row {rows[0].number} of the outbox is not the one that is in Kafka: was the database restored from a "
            "copy? Orders of the time between are in Kafka only, and later ones have got their numbers."
        )
    return rows[1:]
