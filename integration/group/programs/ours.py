"""A member by aioprod: `python -m integration.group.programs.ours JOB`; it leaves when it reads a line."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from aioprod import TopicPartition
from aioprod.errors import BrokerError
from aioprod.group import Member
from aioprod.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
)
from aioprod.types import ConsumedRecord
from integration.group.programs.telling import COMMIT_EVERY_S, POLL_S, Job, check, tell
from integration.group.reports import Said

__all__ = ["OurMember"]

_ASSIGNORS: Final[dict[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}


class Leading:
    """An assignor that tells what it assigns, which makes its member the leader."""

    def __init__(self, assignor: Assignor) -> None:
        self._assignor = assignor
        self.name = assignor.name

    def assign(self, partitions: Any, members: Mapping[str, Subscription]) -> dict[str, list[TopicPartition]]:
        assignment = self._assignor.assign(partitions, members)
        tell(Said.LEADS, "", -1, assignment=assignment)
        return assignment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._assignor, name)


class OurMember:
    """One member; what it handles is committed soon after, and before its partitions are given up."""

    def __init__(self, job: Job) -> None:
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committed_at = 0.0
        self._generation = -1
        self._brokers_assign = not job.strategies
        self._member = Member(
            job.bootstrap_servers,
            group_id=job.group,
            topics=job.topics,
            auto_offset_reset="earliest",
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
            on_lost=self._on_lost,
            **_protocol(job),
            max_poll_interval_ms=job.max_poll_interval_ms,
        )

    async def run(self, leaving: asyncio.Event) -> None:
        """Handle records until it is to leave."""
        tell(Said.BEGINS, "", -1)
        async with self._member:
            while not leaving.is_set():
                record = None
                with suppress(TimeoutError):
                    record = await asyncio.wait_for(anext(self._member), POLL_S)
                # An epoch in which nothing changes is not worth a callback.
                if self._brokers_assign and self._member.group_metadata.generation_id > self._generation:
                    self._on_assigned(())
                if record is not None:
                    self._handle(record)
                if time.monotonic() > self._committed_at + COMMIT_EVERY_S:
                    await self._commit()
            self._tell(Said.LEAVES)
        self._tell(Said.LEFT)

    def _handle(self, record: ConsumedRecord) -> None:
        check(record.value, record.offset)
        partition = TopicPartition(record.topic, record.partition)
        self._tell(Said.HANDLED, [partition], [record.offset])
        self._uncommitted[partition] = record.offset + 1

    async def _commit(self) -> None:
        """What fails is tried again with what comes later, as long as the partitions stay."""
        self._committed_at = time.monotonic()
        offsets = dict(self._uncommitted)
        if not offsets:
            return
        try:
            await self._member.commit(offsets)
        except BrokerError as error:
            self._tell(Said.REFUSED, offsets, why=str(error))
            return
        self._uncommitted.clear()
        self._tell(Said.COMMITTED, offsets, offsets.values())

    def _on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._generation = self._member.group_metadata.generation_id
        self._tell(Said.ASSIGNED, partitions)

    async def _on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        await self._commit()
        self._gone(Said.REVOKED, partitions)

    def _on_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self._gone(Said.LOST, partitions)

    def _gone(self, said: Said, partitions: Iterable[TopicPartition]) -> None:
        gone = list(partitions)
        for partition in gone:
            self._uncommitted.pop(partition, None)
        self._tell(said, gone)

    def _tell(
        self, said: Said, partitions: Iterable[TopicPartition] = (), offsets: Iterable[int] = (), why: str = ""
    ) -> None:
        metadata = self._member.group_metadata
        tell(said, metadata.member_id, metadata.generation_id, partitions, offsets, why=why)


def _protocol(job: Job) -> dict[str, Any]:
    if not job.strategies:
        return {"group_protocol": "consumer"}
    return {
        "assignors": [Leading(_ASSIGNORS[name]) for name in job.strategies],
        "session_timeout_ms": job.session_timeout_ms,
        "heartbeat_interval_ms": job.heartbeat_interval_ms,
    }


async def main(job: Job) -> None:
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, leaving.set)
    await OurMember(job).run(leaving)


if __name__ == "__main__":
    asyncio.run(main(Job(**json.loads(sys.argv[1]))))
