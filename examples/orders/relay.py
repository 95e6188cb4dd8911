"""The relay: takes the rows of the outbox in their order, and writes each to Kafka exactly once.

Each transaction has some rows and the marker that names the next one. Whatever fails, and wherever the process is
killed, the next relay does the same: it fences all producers before it, so that none of them can commit any more, reads
the marker, and continues there. Readers with isolation.level=read_committed see each row once and in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NoReturn
from uuid import UUID, uuid4

from aioprod import Producer, TopicPartition
from aioprod.cluster import Cluster
from aioprod.errors import AioprodError
from aioprod.transactions import TransactionSession
from examples.orders.database import Database, DatabaseError, OutboxRow
from examples.orders.marker import MarkerError, Position, group_of, marker_of, next_row, rows_after
from examples.orders.settings import Settings

__all__ = ["Relay", "ReplacedError"]

log = logging.getLogger(__name__)

ROWS_MAX: Final = 500
"""The most rows of one transaction."""
POLL_S: Final = 0.1
"""How long to wait for rows when there are none."""
RETRY_S: Final = 1.0
"""How long to wait after a failure."""
RENEWED_EVERY_S: Final = 86_400.0
"""How often the marker is committed without rows: brokers delete offsets that are a week old."""


class ReplacedError(Exception):
    """Another relay of the same outbox was started later."""


class Relay:
    """Sends the outbox of one database; `producer` is the one that it uses now, None before it runs."""

    def __init__(self, database: Database, settings: Settings, *, renewed_every_s: float = RENEWED_EVERY_S) -> None:
        self._database = database
        self._servers = settings.bootstrap_servers
        self._topic = settings.topic
        self._id = settings.transactional_id
        self._renewed_every_s = renewed_every_s
        self._name = uuid4().hex
        self._has_claimed = False
        self._topic_ids: set[UUID | None] = set()
        self.producer: Producer | None = None

    async def run(self) -> NoReturn:
        """Send rows until cancelled. Failures of Kafka and of the database are logged, and it starts again.

        Raises ReplacedError when another relay took over, and MarkerError when marker and outbox don't belong
        together.
        """
        while True:
            try:
                await self._send_until_failure()
            except (AioprodError, DatabaseError) as error:
                log.warning("The relay starts again in %g s: %s", RETRY_S, error)
            await asyncio.sleep(RETRY_S)

    async def _claim(self) -> None:
        """Become the relay of the outbox, once; raises ReplacedError if another one has become it since.

        Brokers make no difference: they answer the same to a producer whose transaction has taken too long.
        """
        if not self._has_claimed:
            await self._database.claim_outbox(self._name)
            self._has_claimed = True
        elif (await self._database.outbox_state()).relay != self._name:
            raise ReplacedError("Another relay has taken over the outbox, and this one stops: run one for each outbox.")

    async def _send_until_failure(self) -> NoReturn:
        await self._claim()
        # A transaction that was interrupted keeps readers waiting until it is ended: 10 s at most.
        self.producer = Producer(self._servers, transactional_id=self._id, transaction_timeout_ms=10_000)
        self._topic_ids.clear()
        self.producer.add_metadata_listener(self._note_topic)
        async with self.producer as producer:
            # Before the marker is read: one that is deleted later is noticed by its id, one before by its marker.
            await producer.partitions_for(self._topic)
            outbox = await self._database.outbox_state()
            position = await self._begin(producer)
            loop = asyncio.get_running_loop()
            renewed = loop.time()
            while True:
                rows = rows_after(position, await self._database.outbox(position.number - 1, ROWS_MAX))
                if rows or loop.time() - renewed >= self._renewed_every_s:
                    position = await self._send(producer, rows, position, outbox.owner)
                    renewed = loop.time()
                    if rows:  # Only then it is certain that those before them are the ones that were sent.
                        await self._database.delete_outbox(position.number)
                else:
                    await asyncio.sleep(POLL_S)

    def _note_topic(self, cluster: Cluster) -> None:
        if self._topic in cluster.topics:
            self._topic_ids.add(cluster.topic_id(self._topic))

    async def _begin(self, producer: Producer) -> Position:
        """Find the first row to send. The producer has started: no earlier one can commit any more."""
        marker = TopicPartition(self._topic, 0)
        async with TransactionSession(self._servers, transactional_id=self._id) as session:
            found = (await session.committed_offsets(group_of(self._id), [marker]))[marker]
        # After the marker: the outbox can only have grown since.
        outbox = await self._database.outbox_state()
        position = next_row(found, outbox, self._id)
        if found is None:
            await self._send(producer, (), position, outbox.owner)
        if not outbox.has_begun:
            await self._database.note_marker()
        log.info("The relay continues with row %d; the outbox ends before %d.", position.number, outbox.next)
        return position

    async def _send(self, producer: Producer, rows: Sequence[OutboxRow], position: Position, owner: str) -> Position:
        """Write these rows and their marker in one transaction, and return the position after them."""
        number = position.number
        following = Position(number + len(rows), rows[-1].id if rows else position.last_id)
        if [row.number for row in rows] != list(range(number, following.number)):
            await self._claim()  # Or a relay that has taken over has sent and deleted them.
            raise MarkerError(
                f"Rows from {number} on are missing in the outbox: did anything but the relay delete them?"
            )
        marker = {TopicPartition(self._topic, 0): marker_of(following, owner)}
        async with producer.transaction():
            sent = await producer.send_many(
                self._topic,
                [row.value.encode() for row in rows],
                keys=[row.key.encode() for row in rows],
                headers=[[("outbox", b"%d" % row.number)] for row in rows],
            )
            sent.raise_for_failures()
            if len(self._topic_ids) > 1:
                raise MarkerError(
                    f"The topic {self._topic!r} was deleted and created again while the relay ran. Rows before "
                    f"{number} are not in it. Look what its readers need, and set the marker, the group "
                    f"{group_of(self._id)!r}'s offset for partition 0, to the number of the next row to send."
                )
            await producer.send_offsets_to_transaction(marker, group_of(self._id))
        return following
