"""Two workers in one group share the partitions of a topic; one of them leaves, and the other one takes over.

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
    """Process jobs until all are done; the member commits those that are done, also before partitions are revoked."""

    def __init__(self, bootstrap_servers: str, name: str, done: set[bytes]) -> None:
        self.name = name
        self.done = done
        self.has_share = asyncio.Event()
        self.member = Member(
            bootstrap_servers,
            group_id="workers",
            topics=[TOPIC],
            auto_offset_reset="earliest",
            on_assigned=self.assigned,
            on_revoked=self.revoked,
            enable_auto_commit=True,
        )

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are assigned to this worker."""
        share = sorted(tp.partition for tp in partitions)
        print(f"{self.name} gets {share}")
        if share:
            self.has_share.set()

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Another member gets these partitions, and begins after the last job that was done here."""
        print(f"{self.name} is revoked {sorted(tp.partition for tp in partitions)}")

    def do(self, job: bytes) -> None:
        """The work itself."""
        self.done.add(job)

    async def work(self) -> None:
        """Process the jobs in turn. A job is done when the loop polls the next one."""
        async with self.member as member:
            async for record in member:
                self.do(record.value)
                if len(self.done) == JOBS:
                    break


async def main(bootstrap_servers: str) -> None:
    """Create the jobs, and process them."""
    async with Admin(bootstrap_servers) as admin:
        if TOPIC not in await admin.topics():
            await admin.create_topic(TOPIC, partitions=4)
    done: set[bytes] = set()
    one, two = Worker(bootstrap_servers, "one", done), Worker(bootstrap_servers, "two", done)
    tasks = [asyncio.create_task(worker.work()) for worker in (one, two)]
    jobs = [b"job %d" % number for number in range(JOBS)]
    async with Producer(bootstrap_servers) as producer:
        (await producer.send_many(TOPIC, jobs[: JOBS // 2])).raise_for_failures()
        await one.has_share.wait()
        await two.has_share.wait()
        await two.member.close()
        (await producer.send_many(TOPIC, jobs[JOBS // 2 :])).raise_for_failures()
    await asyncio.gather(*tasks)
    print(f"all of {len(done):,} jobs are done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
