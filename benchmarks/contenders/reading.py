"""The ways to read a topic, of all clients; those that aren't measured are not imported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from importlib import metadata
from typing import Any, Final

from benchmarks.contenders.log_ins import aiokafka_log_in, librdkafka_log_in
from benchmarks.job import Job, Measurement
from benchmarks.measure import Meter, Tally

__all__ = ["CALLS", "measure"]

MAX_RECORDS: Final = 1000
"""The records of one list."""
TIMEOUT_S: Final = 5.0


async def measure(job: Job, meter: Meter) -> Measurement:
    """Read all records of the job's topic, after a run of one record, which imports modules."""
    read, library = CALLS[job.call]
    if library == "aioprod":
        from benchmarks.contenders.build import check_build

        check_build(job)
    await read(job, 1)
    tally = Tally()
    meter.start()
    tally.acknowledged = await read(job, job.records)
    assert tally.acknowledged >= job.records, f"{tally.acknowledged} of {job.records} records were read."
    used: dict[str, Any] = {"loop": job.loop}
    if "lists" in job.call or job.call == "consume":
        used |= {"records of a list": MAX_RECORDS}
    return meter.measurement(
        replace(job, records=tally.acknowledged), tally, None, used, {library: metadata.version(library)}
    )


async def _count(items: AsyncIterator[Any], records: int, size: Callable[[Any], int]) -> int:
    found = 0
    async for item in items:
        found += size(item)
        if found >= records:
            break
    return found


def _one(_: object) -> int:
    return 1


def _rows(batch: Any) -> int:
    return int(batch.num_rows)


async def _reader(job: Job, records: int, *, arrow: bool) -> int:
    from aioprod.reader import Reader

    async with Reader(job.bootstrap_servers, **job.log_in) as reader:
        if arrow:
            async with aclosing(reader.read_arrow(job.topics[0])) as batches:
                return await _count(batches, records, _rows)
        async with aclosing(reader.read(job.topics[0])) as found:
            return await _count(found, records, _one)


async def _member(job: Job, records: int, *, call: str) -> int:
    from aioprod.group import Member

    (topic,) = job.topics
    options: dict[str, Any] = {"topics": [topic], "auto_offset_reset": "earliest", **job.log_in}
    async with Member(job.bootstrap_servers, group_id=f"{topic}-{call}", **options) as member:
        if call == "arrow":
            return await _count(member.arrow_batches(max_wait_ms=500), records, _rows)
        if call == "lists":
            return await _count(member.batches(MAX_RECORDS, max_wait_ms=500), records, len)
        return await _count(member, records, _one)


async def _aiokafka(job: Job, records: int, *, lists: bool) -> int:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.structs import TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap_servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **aiokafka_log_in(job),
    )
    await consumer.start()
    try:
        assigned = [TopicPartition(job.topics[0], partition) for partition in range(job.partitions)]
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


async def _confluent(job: Job, records: int, *, lists: bool) -> int:
    """It blocks the loop, which has nothing else to do."""
    from confluent_kafka import Consumer, TopicPartition

    address = {"bootstrap.servers": job.bootstrap_servers, **librdkafka_log_in(job)}
    consumer = Consumer({**address, "group.id": "readers", "enable.auto.commit": False, "log_level": 0})
    try:
        consumer.assign([TopicPartition(job.topics[0], partition, 0) for partition in range(job.partitions)])
        found = 0
        while found < records:
            wanted = min(MAX_RECORDS, records - found)  # It waits until it has all of them.
            messages = consumer.consume(wanted, TIMEOUT_S) if lists else [consumer.poll(TIMEOUT_S)]
            for message in messages:
                if message is None or message.error() is not None:
                    raise RuntimeError(f"No record came: {None if message is None else message.error()}.")
                message.key()
                message.value()
                found += 1
        return found
    finally:
        consumer.close()


Read = Callable[[Job, int], Awaitable[int]]

CALLS: Final[dict[str, tuple[Read, str]]] = {
    "read": (partial(_reader, arrow=False), "aioprod"),
    "read_arrow": (partial(_reader, arrow=True), "aioprod"),
    "member": (partial(_member, call="records"), "aioprod"),
    "member_lists": (partial(_member, call="lists"), "aioprod"),
    "member_arrow": (partial(_member, call="arrow"), "aioprod"),
    "aiokafka": (partial(_aiokafka, lists=False), "aiokafka"),
    "aiokafka_lists": (partial(_aiokafka, lists=True), "aiokafka"),
    "poll": (partial(_confluent, lists=False), "confluent-kafka"),
    "consume": (partial(_confluent, lists=True), "confluent-kafka"),
}
"""How each reads the records of a topic, and counts them; and the library that it belongs to."""
