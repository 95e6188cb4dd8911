"""The outbox as a source of `aioprod.relay.Relay`, which writes each row to Kafka exactly once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final, Self

from aioprod import ProducerRecord
from aioprod.relay import MarkerError
from examples.orders.database import Database, OutboxRow

__all__ = ["OutboxSource"]

POLL_S: Final = 0.1
"""How long to wait for rows when there are none."""
SEE: Final = "Stop service and relay, and see 'Setting the marker' in the README of this example."


class OutboxSource:
    """The rows of one database's outbox, for this topic. A position is `number:id` of a row.

    Rows that were delivered are deleted. A database that was restored from a copy is noticed all the same: either its
    outbox ends before the position, or a row with that number was added since, and has another id.
    """

    def __init__(self, database: Database, owner: str, topic: str) -> None:
        self._database = database
        self._topic = topic
        self.owner: Final = owner

    @classmethod
    async def open(cls, database: Database, topic: str) -> Self:
        """The source of this database; raises DatabaseError."""
        return cls(database, (await database.outbox_state()).owner, topic)

    async def read(self, after: bytes | None, limit: int) -> Sequence[tuple[ProducerRecord, bytes]]:
        """The rows after this position. Raises DatabaseError, and MarkerError where the outbox is not the one that was
        sent, or lacks rows.
        """
        sent = -1 if after is None else _number_of(after)
        end = (await self._database.outbox_state()).next  # Before the rows: those that it counts must be among them.
        if end <= sent:
            raise MarkerError(
                f"Rows up to {sent} are in Kafka, and the outbox ends at {end - 1}: was the database restored from a "
                "copy? Orders of the time between are in Kafka only.",
                hint=SEE,
            )
        rows = await self._database.outbox(sent, limit + 1)
        if rows and rows[0].number == sent:
            if after not in (_position_of(rows[0]), b"%d:" % sent):
                raise MarkerError(
                    f"Row {sent} of the outbox is not the one that is in Kafka: was the database restored from a copy? "
                    "Orders of the time between are in Kafka only, and later ones have got their numbers.",
                    hint=SEE,
                )
            del rows[0]
        self._check_complete(rows[:limit], sent + 1, end)
        return [(self._record_of(row), _position_of(row)) for row in rows[:limit]]

    async def wait(self) -> None:
        """Look again a moment later."""
        await asyncio.sleep(POLL_S)

    async def delivered(self, position: bytes) -> None:
        """Delete the rows up to this one; raises DatabaseError."""
        await self._database.delete_outbox(_number_of(position) + 1)

    def _check_complete(self, rows: Sequence[OutboxRow], begin: int, end: int) -> None:
        """Raise MarkerError where rows are missing between those that were sent and the end."""
        if [row.number for row in rows] == list(range(begin, begin + len(rows))) and (rows or begin == end):
            return
        if begin:
            raise MarkerError(
                f"Rows from {begin} on are missing in the outbox: did anything but the relay delete them?", hint=SEE
            )
        raise MarkerError(
            "Rows were sent, as the first ones are not in the outbox any more, and the marker that says how many is "
            "gone: it goes with its topic, and after offsets.retention.minutes in which no relay ran.",
            hint=SEE,
        )

    def _record_of(self, row: OutboxRow) -> ProducerRecord:
        headers = [("outbox", b"%d" % row.number)]
        return ProducerRecord(self._topic, row.value.encode(), key=row.key.encode(), headers=headers)


def _position_of(row: OutboxRow) -> bytes:
    return f"{row.number}:{row.id}".encode()


def _number_of(position: bytes) -> int:
    found = re.match(rb"(\d{1,18}):", position)
    if found is None:
        raise MarkerError(
            f"The marker has the position {position[:60]!r}, and those of an outbox are `number:id`: was it written by "
            "an earlier version of this example?",
            hint=SEE,
        )
    return int(found[1])
