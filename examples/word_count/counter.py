"""A member of a group that counts words, exactly once: counts and offsets are committed in one transaction.

    python -m examples.word_count.counter BOOTSTRAP NAME

Several can run at once, each with a name of its own, the same after a restart.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from aioprod import GroupMetadata, Producer, TopicPartition
from aioprod.errors import AioprodError, ProducerFencedError
from aioprod.group import Member
from aioprod.types import ConsumedRecord
from examples.word_count.state import CountsTopic, words_of

__all__ = ["COUNTS", "LINES", "WordCounter"]

log = logging.getLogger(__name__)

LINES: Final = "lines"
COUNTS: Final = "counts"
"""It has as many partitions as the topic of the lines."""
GROUP: Final = "word-count"
LINES_MAX: Final = 200
"""The most lines of one transaction."""


class WordCounter:
    """One member. Its counts are those of the partitions that it owns, restored from the topic when they are needed."""

    def __init__(self, bootstrap_servers: str, name: str, *, heartbeat_interval_ms: int = 3000) -> None:
        self._producer = Producer(bootstrap_servers, transactional_id=f"{GROUP}-{name}", transaction_timeout_ms=10_000)
        self.member = Member(
            bootstrap_servers,
            group_id=GROUP,
            # Static: one that was killed gets its partitions back when it is started again.
            group_instance_id=name,
            heartbeat_interval_ms=heartbeat_interval_ms,
            topics=[LINES],
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            on_revoked=self._forget,
        )
        self._topic = CountsTopic(bootstrap_servers, COUNTS)
        self._counts: dict[int, Counter[str]] = {}

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Another member counts these from now on; it is called for lost partitions, too."""
        for place in partitions:
            self._counts.pop(place.partition, None)

    async def run(self) -> None:
        """Count until cancelled; raises ProducerFencedError when another counter with this name was started."""
        # The producer first: it ends what a killed one of this name has left open.
        async with (
            self._producer,
            self._topic,
            self.member as member,
        ):
            async for records in member.batches(max_records=LINES_MAX, max_wait_ms=100):
                # Its generation is that of these records: after a rebalance the coordinator rejects their offsets.
                await self._count(records, member.group_metadata)

    async def _count(self, records: Sequence[ConsumedRecord], group: GroupMetadata) -> None:
        try:
            changed = await self._changed(records)
            offsets = {TopicPartition(LINES, one.partition): one.offset + 1 for one in records}
            async with self._producer.transaction():
                for (partition, word), count in changed.items():
                    self._producer.send_nowait(COUNTS, b"%d" % count, key=word.encode(), partition=partition)
                await self._producer.send_offsets_to_transaction(offsets, group)
        except ProducerFencedError:
            raise
        except AioprodError as error:
            log.warning("%d lines are counted once more: %s", len(records), error)
            self._counts.clear()
            await self.member.rewind()

    async def _changed(self, records: Sequence[ConsumedRecord]) -> dict[tuple[int, str], int]:
        """Count the words of these lines, and return the counts that have changed, by partition and word."""
        changed: dict[tuple[int, str], int] = {}
        for record in records:
            place = record.partition
            if place not in self._counts:
                # After the first record was read: the member has waited for the offsets of open transactions.
                self._counts[place] = await self._topic.restore(place)
            for word in words_of(record.value):
                self._counts[place][word] += 1
                changed[place, word] = self._counts[place][word]
        return changed


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(WordCounter(*sys.argv[1:]).run())
