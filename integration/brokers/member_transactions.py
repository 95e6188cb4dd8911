"""Checks of members that commit their offsets in transactions: one result per record, also if one is replaced."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aioprod import TopicPartition
from aioprod.errors import TransactionAbortedError, UnsupportedVersionError
from aioprod.types import ConsumedRecord
from integration.brokers.broker import Broker
from integration.brokers.comparing import until
from integration.brokers.members import produced
from integration.brokers.readers import member_of
from integration.brokers.registry import Check
from integration.brokers.sending import new_topic
from integration.brokers.transactions import committed_offset, transactional
from integration.support.reading import read_topic

__all__ = ["CHECKS"]

ABSENCE_MS: Final = 1000


async def check_offsets(broker: Broker) -> None:
    """Consume, transform, produce: the group is behind the last record whose result is committed (KIP-447)."""
    source, target, group = await new_topic(broker, 1), await new_topic(broker, 1), broker.fresh("group")
    await produced(broker, source, 3)

    async def offset() -> int | None:
        return await committed_offset(broker, group, TopicPartition(source, 0))

    async with transactional(broker) as producer, member_of(broker, group, source) as member:
        async for record in member:
            await _transform(producer, target, record, member.group_metadata)
            await until(f"offset of {group}", offset, record.offset + 1)
            if record.offset == 2:
                break
    assert await _results(broker, target) == [b"0", b"1", b"2"]


async def check_zombie(broker: Broker) -> None:
    """A member that was away for longer than max.poll.interval.ms commits its result after its successor did."""
    source, target, group = await new_topic(broker, 1), await new_topic(broker, 1), broker.fresh("group")
    await produced(broker, source, 1)
    options = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 200}
    async with (
        transactional(broker) as one,
        transactional(broker) as other,
        member_of(broker, group, source, max_poll_interval_ms=ABSENCE_MS, **options) as zombie,
    ):
        record, metadata = await anext(zombie), zombie.group_metadata
        # Nobody asks the first one for more: it leaves, and its partition goes to the other one.
        async with member_of(broker, group, source, **options) as successor:
            again = await anext(successor)
            assert again == record
            try:
                await _transform(other, target, again, successor.group_metadata)
            except UnsupportedVersionError:
                assert await _results(broker, target) == []
                raise
            try:
                await _transform(one, target, record, metadata)
            except TransactionAbortedError:
                pass
            else:
                raise AssertionError(f"The replaced member could commit: {await _results(broker, target)}")
    assert await _results(broker, target) == [b"0"]


async def _transform(producer: Any, target: str, record: ConsumedRecord, metadata: Any) -> None:
    """The result of a record, its offset, and the offset that the group goes on from, in one transaction."""
    async with producer.transaction():
        await producer.send(target, b"%d" % record.offset)
        place = TopicPartition(record.topic, record.partition)
        await producer.send_offsets_to_transaction({place: record.offset + 1}, metadata)


async def _results(broker: Broker, target: str) -> list[bytes | None]:
    found = await asyncio.to_thread(read_topic, broker.bootstrap_servers, target, "read_committed")
    return [record.value for record in found]


CHECKS: Final = (
    Check("transactions: offsets of a member", check_offsets, since=(2, 5)),
    Check("transactions: a member that was replaced", check_zombie, since=(2, 5)),
)
