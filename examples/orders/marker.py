"""The marker: how far a relay's transactions have come in Kafka. `aioprod.spark` has the same for its micro-batches.

It is the offset of a group that has no other use, `aioprod-eos.<transactional id>`: the number of the next row to send,
with the owner of the outbox as its text. It is committed in the transaction of the rows before it, so that it is there
exactly if they are.
"""

from __future__ import annotations

from aioprod import OffsetAndMetadata
from examples.orders.database import OutboxState

__all__ = ["MarkerError", "group_of", "marker_of", "next_row"]


class MarkerError(Exception):
    """Marker and outbox don't belong together. Nothing is sent on a guess: somebody has to look."""


def group_of(transactional_id: str) -> str:
    """The group whose offset is the marker."""
    return f"aioprod-eos.{transactional_id}"


def marker_of(following: int, owner: str) -> OffsetAndMetadata:
    """What is committed with the rows before number `following`."""
    return OffsetAndMetadata(following, owner)


def next_row(found: OffsetAndMetadata | None, outbox: OutboxState, transactional_id: str) -> int:
    """The number of the row to go on with; `found` was read after earlier relays were fenced. Raises MarkerError."""
    group = group_of(transactional_id)
    if found is None:
        if outbox.has_begun:
            raise MarkerError(
                f"The marker of the outbox, an offset of the group {group!r}, is gone: it goes with its topic, and "
                "after offsets.retention.minutes in which no relay ran. Look which row was sent last, and set the "
                "group's offset for partition 0 of the topic to the number of the next one."
            )
        return 0
    if found.metadata not in (outbox.owner, ""):
        raise MarkerError(
            f"The group {group!r} has the marker of another outbox, {found.metadata!r}, and this one is "
            f"{outbox.owner!r}: give each database a TRANSACTIONAL_ID of its own."
        )
    if found.offset > outbox.next:
        raise MarkerError(
            f"Rows up to {found.offset - 1} are in Kafka, and the outbox ends at {outbox.next - 1}: was the database "
            "restored from a copy? Orders of the time between are in Kafka only."
        )
    return found.offset
