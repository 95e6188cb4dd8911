"""Two workers of one group share the partitions of a topic; one of them leaves, and the other one takes over.

python examples/group_worker.py localhost:9092
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.group import Member

TOPIC = "jobs"
JOBS = 3000


class Worker:
    """Does jobs until it is cancelled; what it has done is committed before its partitions go to another one."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self.name = name
        self.done: set[bytes] = set()
        self.member = Member(
            bootstrap_servers,
            group_id="workers",
            topics=[TOPIC],
            auto_offset_reset="earliest",
            on_assigned=self.assigned,
            on_revoked=self.revoked,
        )

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These come to it."""
        print(f"{self.name} gets {sorted(tp.partition for tp in partitions)}")

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """These go to another one, who begins where this one got to."""
        print(f"{self.name} gives up {sorted(tp.partition for tp in partitions)}")
        await self.member.commit()

    async def work(self) -> None:
        """One job after the other; a commit now and then bounds what is done twice after a crash."""
        async with self.member as member:
            async for record in member:
                self.done.add(record.value)
                if len(self.done) % 100 == 0:
                    await member.commit()


async def main(bootstrap_servers: str) -> None:
    """Make the jobs, and have them done."""
    async with Admin(bootstrap_servers) as admin:
        if TOPIC not in await admin.topics():
            await admin.create_topic(TOPIC, partitions=4)
    one, two = Worker(bootstrap_servers, "one"), Worker(bootstrap_servers, "two")
    tasks = [asyncio.create_task(worker.work()) for worker in (one, two)]
    jobs = [b"job %d" % number for number in range(JOBS)]
    async with Producer(bootstrap_servers) as producer:
        await producer.send_many(TOPIC, jobs[: JOBS // 2])
        while not (one.member.assignment and two.member.assignment):
            await asyncio.sleep(0.1)
        await two.member.close()
        await producer.send_many(TOPIC, jobs[JOBS // 2 :])
    while len(one.done | two.done) < JOBS:
        await asyncio.sleep(0.1)
    await one.member.close()
    await asyncio.gather(*tasks)
    print(f"all of {JOBS:,} jobs are done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
