"""A member by aioprod that copies records to other topics, each record once, also if members crash.

    python -m integration.group.programs.transformer JOB

Its offsets are committed in its transactions (KIP-447). It aborts some of them at random, and then seeks to the
committed offsets.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from aioprod import Producer, TopicPartition
from aioprod.errors import AioprodError, ProducerFencedError
from aioprod.group import Member
from aioprod.types import ConsumedRecord
from integration.group.programs.telling import COMMIT_EVERY_S, POLL_S, Job, check, output_of, tell
from integration.group.reports import Said

__all__ = ["Transformer"]

ABORTED_SHARE: Final = 0.1
TRANSACTION_TIMEOUT_MS: Final = 5000
"""So that partitions are soon free again of which a killed member had a transaction open."""


class OnPurposeError(Exception):
    """What a transaction is aborted with that has no other fault."""


class Transformer:
    """A member and a producer, until it is to leave or the producer is fenced: its transaction took too long."""

    def __init__(self, job: Job, producer: Producer) -> None:
        self._producer = producer
        self._batch: list[ConsumedRecord] = []
        self._begun_at = time.monotonic()
        self._has_aborted = False
        self._transacting = asyncio.Lock()
        self._member = Member(
            job.bootstrap_servers,
            group_id=job.group,
            topics=job.topics,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            on_assigned=lambda partitions: self._tell(Said.ASSIGNED, partitions),
            on_revoked=self._on_revoked,
            on_lost=self._on_lost,
            session_timeout_ms=job.session_timeout_ms,
            heartbeat_interval_ms=job.heartbeat_interval_ms,
            config={"partition.assignment.strategy": job.strategies},
            max_poll_interval_ms=job.max_poll_interval_ms,
        )

    async def run(self, leaving: asyncio.Event) -> None:
        """Raise ProducerFencedError for a transaction that took too long."""
        async with self._member:
            while not leaving.is_set():
                record = None
                with suppress(TimeoutError):
                    record = await asyncio.wait_for(anext(self._member), POLL_S)
                # A transaction may have been aborted by a callback, before the record that comes now.
                if self._has_aborted:
                    await self._member.rewind()
                    self._has_aborted = False
                    self._tell(Said.REWOUND)
                elif record is not None:
                    self._handle(record)
                if time.monotonic() > self._begun_at + COMMIT_EVERY_S:
                    await self._transact()
            self._tell(Said.LEAVES)

    def _handle(self, record: ConsumedRecord) -> None:
        check(record.value, record.offset)
        self._tell(Said.HANDLED, [TopicPartition(record.topic, record.partition)], [record.offset])
        self._batch.append(record)

    async def _transact(self) -> None:
        """Write what was handled, with the offsets after it."""
        async with self._transacting:
            self._begun_at = time.monotonic()
            batch, self._batch = self._batch, []
            if not batch:
                return
            offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in batch}
            try:
                async with self._producer.transaction():
                    for record in batch:
                        self._producer.send_nowait(output_of(record.topic), record.value, partition=record.partition)
                    await self._producer.send_offsets_to_transaction(offsets, self._member.group_metadata)
                    if random.random() < ABORTED_SHARE:
                        raise OnPurposeError("by chance")
            except ProducerFencedError:
                raise
            except (AioprodError, OnPurposeError) as error:
                self._has_aborted = True
                self._tell(Said.REFUSED, offsets, why=str(error))
            else:
                self._tell(Said.COMMITTED, offsets, offsets.values())

    async def _on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        await self._transact()
        self._tell(Said.REVOKED, partitions)

    def _on_lost(self, partitions: Iterable[TopicPartition]) -> None:
        lost = frozenset(partitions)
        self._batch = [record for record in self._batch if TopicPartition(record.topic, record.partition) not in lost]
        self._tell(Said.LOST, lost)

    def _tell(
        self, said: Said, partitions: Iterable[TopicPartition] = (), offsets: Iterable[int] = (), why: str = ""
    ) -> None:
        metadata = self._member.group_metadata
        tell(said, metadata.member_id, metadata.generation_id, partitions, offsets, why=why)


async def main(job: Job) -> None:
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, leaving.set)
    tell(Said.BEGINS, "", -1)
    while not leaving.is_set():
        async with Producer(
            job.bootstrap_servers,
            transactional_id=f"{job.group}-{os.getpid()}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            delivery_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=TRANSACTION_TIMEOUT_MS // 2,
        ) as producer:
            with suppress(ProducerFencedError):
                await Transformer(job, producer).run(leaving)
    tell(Said.LEFT, "", -1)


if __name__ == "__main__":
    asyncio.run(main(Job(**json.loads(sys.argv[1]))))
