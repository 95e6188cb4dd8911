"""One process that reads a topic: `python -m benchmarks.readers.contender NAME ADDRESS TOPIC RECORDS PARTITIONS`."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from benchmarks.measure import cpu_s

__all__ = ["CONTENDERS", "main"]

MAX_RECORDS = 1000
"""The records of one list."""
TIMEOUT_S = 5.0


async def _count(items: AsyncIterator[Any], records: int, size: Callable[[Any], int]) -> int:
    found = 0
    async for item in items:
        found += size(item)
        if found >= records:
            break
    return found


def _one(_: object) -> int:
    return 1


async def _reader(address: str, topic: str, records: int, partitions: int, *, arrow: bool) -> int:
    from aioprod.reader import Reader

    async with Reader(address) as reader:
        if arrow:
            async with aclosing(reader.read_arrow(topic)) as batches:
                return await _count(batches, records, lambda batch: int(batch.num_rows))
        async with aclosing(reader.read(topic)) as found:
            return await _count(found, records, _one)


async def _member(address: str, topic: str, records: int, partitions: int, *, call: str) -> int:
    from aioprod.group import Member

    async with Member(address, group_id=f"{topic}-{call}", topics=[topic], auto_offset_reset="earliest") as member:
        if call == "arrow":
            return await _count(member.arrow_batches(), records, lambda batch: int(batch.num_rows))
        if call == "lists":
            return await _count(member.batches(MAX_RECORDS), records, len)
        return await _count(member, records, _one)


async def _aiokafka(address: str, topic: str, records: int, partitions: int, *, lists: bool) -> int:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.structs import TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        for tp in assigned:
            consumer.seek(tp, 0)
        if not lists:
            return await _count(consumer, records, _one)
        found = 0
        while found < records:
            some = await consumer.getmany(timeout_ms=1000, max_records=MAX_RECORDS)
            for batch in some.values():
                found += len(batch)
        return found
    finally:
        await consumer.stop()


async def _confluent(address: str, topic: str, records: int, partitions: int, *, lists: bool) -> int:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found = 0
        while found < records:
            messages = consumer.consume(MAX_RECORDS, TIMEOUT_S) if lists else [consumer.poll(TIMEOUT_S)]
            for message in messages:
                if message is None or message.error() is not None:
                    raise RuntimeError(f"No record came: {None if message is None else message.error()}.")
                message.key()
                message.value()
                found += 1
        return found
    finally:
        consumer.close()


Read = Callable[[str, str, int, int], Awaitable[int]]

CONTENDERS: dict[str, Read] = {
    "aioprod Reader.read": lambda *args: _reader(*args, arrow=False),
    "aioprod Reader.read_arrow": lambda *args: _reader(*args, arrow=True),
    "aioprod Member": lambda *args: _member(*args, call="records"),
    "aioprod Member.batches": lambda *args: _member(*args, call="lists"),
    "aioprod Member.arrow_batches": lambda *args: _member(*args, call="arrow"),
    "aiokafka iteration": lambda *args: _aiokafka(*args, lists=False),
    "aiokafka getmany": lambda *args: _aiokafka(*args, lists=True),
    "confluent-kafka poll": lambda *args: _confluent(*args, lists=False),
    "confluent-kafka consume": lambda *args: _confluent(*args, lists=True),
}
"""How each reads the records of a topic, and counts them."""


def main() -> None:
    """Print the CPU time of all threads in us per record."""
    import uvloop

    name, address, topic = sys.argv[1:4]
    records, partitions = map(int, sys.argv[4:])
    read = CONTENDERS[name]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        # Modules are imported, and the first connection is made, by a short run.
        runner.run(_within(read(address, topic, 1, partitions)))
        gc.collect()
        before = cpu_s()
        found = runner.run(_within(read(address, topic, records, partitions)))
        used_s = cpu_s() - before
    assert found == records, f"{found} of {records} records were read."
    print(used_s / records * 1e6, flush=True)


async def _within(read: Awaitable[int]) -> int:
    async with asyncio.timeout(60):
        return await read


if __name__ == "__main__":
    main()
