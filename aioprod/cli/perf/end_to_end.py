"""One record at a time, from the call that sends it until a consumer has it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Iterable
from typing import Final

from aioprod.cli.perf.load import Load, Pace, Payload
from aioprod.cli.perf.meter import LoopGap, Meter
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, DeliveryError
from aioprod.group import Member
from aioprod.group.config import MemberConfig
from aioprod.producer import Producer
from aioprod.record_metadata import RecordMetadata
from aioprod.types import TopicPartition

__all__ = ["ReadBackError", "send_and_read"]

_READ_S: Final = 60.0
_JOIN_S: Final = 60.0


class ReadBackError(AioprodError):
    """A record that was acknowledged was not read within a minute, or the group could not be joined in that time."""


async def send_and_read(config: ProducerConfig, load: Load, payload: Payload, meter: Meter) -> None:
    """Send a record, wait until it is read back, send the next one; the meter has the times from call to reading.

    The group that reads has a name of its own, begins at the end of the topic and commits nothing. Raises
    ReadBackError, and what a producer or a member raises.
    """
    joined = asyncio.Event()

    async def at_the_end(partitions: Iterable[TopicPartition]) -> None:
        for tp, offset in (await member.end_offsets(partitions)).items():
            member.seek(tp, offset)
        if partitions:
            joined.set()

    member = Member(
        group_id=f"aioprod-perf-{uuid.uuid4().hex[:12]}",
        topics=[load.topic],
        on_assigned=at_the_end,
        config=MemberConfig.shared_with(config),
    )
    async with Producer(config=config) as producer:
        await producer.partitions_for(load.topic)
        async with member:
            await _within(_JOIN_S, joined.wait(), "The group of the measurement did not get its partitions")
            gap = LoopGap()
            meter.begin()
            try:
                await _each(producer, member, load, payload, meter)
            finally:
                meter.gap_ms = gap.stop()
                meter.end()


async def _each(producer: Producer, member: Member, load: Load, payload: Payload, meter: Meter) -> None:
    pace = Pace(load, meter.began)
    while not pace.is_over(now := meter.clock()):
        if not pace.take(now, 1):
            await asyncio.sleep(pace.wait_s(now))
            continue
        ((key, value),) = payload.pairs(1)
        start = meter.clock()
        try:
            metadata = await producer.send(load.topic, value, key=key)
        except DeliveryError as error:
            meter.note_failed(error)
            continue
        await _within(_READ_S, _read(member, metadata), f"The record at offset {metadata.offset} was not read back")
        meter.note(start, len(value) + len(key or b""))


async def _read(member: Member, sent: RecordMetadata) -> None:
    async for record in member:
        if (record.partition, record.offset) == (sent.partition, sent.offset):
            return


async def _within(seconds: float, work: Awaitable[object], what: str) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError as error:
        raise ReadBackError(
            f"{what} within {seconds:.0f} s.", hint="aioprod doctor and aioprod groups say how the cluster is."
        ) from error
