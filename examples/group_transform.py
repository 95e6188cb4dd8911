"""Read one topic and write another, each record exactly once: results and offsets are one transaction.

python examples/group_transform.py localhost:9092
"""

from __future__ import annotations

import asyncio
import sys
from uuid import uuid4

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.errors import AioprodError, ProducerFencedError
from aioprod.group import Member
from aioprod.reader import read

WORDS = 2000
BATCH = 200


async def transform(bootstrap_servers: str, source: str, target: str, name: str) -> None:
    """Write each word in capitals, until cancelled; several can run at once, each with its own name."""
    async with (
        Producer(bootstrap_servers, transactional_id=f"{target}-{name}") as producer,
        Member(
            bootstrap_servers,
            group_id=f"to-{target}",
            topics=[source],
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as member,
    ):
        batches = member.batches(max_records=BATCH, max_wait_ms=200)
        while True:
            records = await anext(batches)
            # The metadata has the generation of these records: after a rebalance the offsets are rejected.
            metadata = member.group_metadata
            offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
            try:
                async with producer.transaction():
                    for one in records:
                        producer.send_nowait(target, one.value.upper(), key=one.key)
                    await producer.send_offsets_to_transaction(offsets, metadata)
            except ProducerFencedError:
                raise
            except AioprodError as error:
                print(f"{name}: once more, as {error.message}")
                await member.rewind()


async def main(bootstrap_servers: str) -> None:
    """Transform words with two workers, one of which joins later."""
    source, target = f"words-{uuid4().hex[:8]}", f"capitals-{uuid4().hex[:8]}"
    async with Admin(bootstrap_servers) as admin:
        await admin.create_topic(source, partitions=4)
        await admin.create_topic(target, partitions=1)
    async with Producer(bootstrap_servers) as producer:
        sent = await producer.send_many(source, (b"word %d" % number for number in range(WORDS)))
        sent.raise_for_failures()
    tasks = [asyncio.create_task(transform(bootstrap_servers, source, target, "one"))]
    written: list[bytes] = []
    while len(written) < WORDS:
        tasks[1:] = tasks[1:] or [asyncio.create_task(transform(bootstrap_servers, source, target, "two"))]
        await asyncio.sleep(0.5)
        for task in tasks:
            if task.done():
                task.result()
        written = [
            one.value
            async for one in read(target, bootstrap_servers=bootstrap_servers, isolation_level="read_committed")
        ]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    print(f"{len(written):,} words, {len(set(written)):,} of them different")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
