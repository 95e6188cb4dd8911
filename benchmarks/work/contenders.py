"""The contenders in Python; each process imports only its own client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from benchmarks.work.handler import Handler
from benchmarks.work.job import Job, Measurement

__all__ = ["CONTENDERS", "Contend"]

Contend = Callable[[Job, Handler], Awaitable[Measurement]]


async def _work(job: Job, handler: Handler, *, order: Any) -> Measurement:
    import asyncio

    from aioprod.group import Member
    from aioprod.types import ConsumedRecord

    async def handle(record: ConsumedRecord) -> None:
        await handler.handle(record.key)

    async def close() -> Measurement:
        found = await handler.measured()
        await member.close()
        return found

    member = Member(job.bootstrap_servers, group_id=job.group, topics=[job.topic], auto_offset_reset="earliest")
    async with member:
        closing = asyncio.create_task(close())
        await member.work(handle, concurrency=job.concurrency, order=order)
        return await closing


async def _loop(job: Job, handler: Handler) -> Measurement:
    from aioprod.group import Member

    options: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": True}
    async with Member(job.bootstrap_servers, group_id=job.group, topics=[job.topic], **options) as member:
        for _ in range(job.records):
            await handler.handle((await anext(member)).key)
        return await handler.measured()


async def _faststream(job: Job, handler: Handler, *, acks_first: bool) -> Measurement:
    """Without FastStream's logger, which would write two lines for each record."""
    from faststream import AckPolicy
    from faststream.kafka import KafkaBroker, KafkaMessage

    broker = KafkaBroker(job.bootstrap_servers, logger=None)

    @broker.subscriber(
        job.topic,
        group_id=job.group,
        auto_offset_reset="earliest",
        max_workers=job.concurrency,
        ack_policy=AckPolicy.ACK_FIRST if acks_first else AckPolicy.ACK,
    )
    async def handle(message: KafkaMessage) -> None:
        assert not isinstance(message.raw_message, tuple)
        await handler.handle(message.raw_message.key)

    async with broker:
        await broker.start()
        return await handler.measured()


async def _faststream_confluent(job: Job, handler: Handler) -> Measurement:
    from faststream.confluent import KafkaBroker, KafkaMessage

    broker = KafkaBroker(job.bootstrap_servers, logger=None)

    @broker.subscriber(job.topic, group_id=job.group, auto_offset_reset="earliest", max_workers=job.concurrency)
    async def handle(message: KafkaMessage) -> None:
        assert not isinstance(message.raw_message, tuple)
        key = message.raw_message.key()
        await handler.handle(key if isinstance(key, bytes) else None)

    async with broker:
        await broker.start()
        return await handler.measured()


CONTENDERS: Final[dict[str, Contend]] = {
    "work-key": partial(_work, order="key"),
    "work-none": partial(_work, order=None),
    "work-partition": partial(_work, order="partition"),
    "loop": _loop,
    "faststream": partial(_faststream, acks_first=True),
    "faststream-ack": partial(_faststream, acks_first=False),
    "faststream-confluent": _faststream_confluent,
}
