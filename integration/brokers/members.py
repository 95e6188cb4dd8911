"""Checks of `Member`: alone, two in a group, beside confluent-kafka, static, by both protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from aioprod import Producer
from aioprod.errors import BrokerError, ErrorCode
from integration.brokers.broker import Broker
from integration.brokers.comparing import Record, same, until
from integration.brokers.readers import Neighbour, Reading, member_of
from integration.brokers.registry import Check
from integration.brokers.sending import PARTITIONS, given, new_topic, sent

__all__ = ["CHECKS", "produced"]

RECORDS: Final = 600
Options = Mapping[str, Any]
CLASSIC: Final[Options] = MappingProxyType({})
CONSUMER: Final[Options] = MappingProxyType({"group_protocol": "consumer"})


async def produced(broker: Broker, topic: str, count: int = RECORDS) -> list[Record]:
    """Some records more in all partitions of a topic."""
    async with Producer(broker.bootstrap_servers, request_timeout_ms=60_000) as producer:
        return await sent(producer, topic, given(count, len(await producer.partitions_for(topic))))


# --- the checks


async def check_alone(options: Options, broker: Broker) -> None:
    """A member reads all, commits, and leaves; the next one goes on behind that."""
    topic, group = await new_topic(broker), broker.fresh("group")
    for _ in range(2):
        expected = await produced(broker, topic)
        found: list[Record] = []
        async with member_of(broker, group, topic, **options) as member:
            async for record in member:
                found.append(Record.of(record))
                if len(found) == len(expected):
                    break
            await member.commit()
        same("records of the member", sorted(found, key=_place), sorted(expected, key=_place))


async def check_two(options: Options, broker: Broker) -> None:
    """Two members share the partitions; one leaves, and the other one has them all."""
    topic, group = await new_topic(broker), broker.fresh("group")
    expected = await produced(broker, topic)
    async with Reading.of(broker, group, topic, **options) as one:
        async with Reading.of(broker, group, topic, **options) as other:
            await _until_shared(one, other)
            expected += await produced(broker, topic)
            await _until_read(expected, one, other)
        await until("partitions of the one that stays", one.places, set(range(PARTITIONS)))
        expected += await produced(broker, topic)
        await _until_read(expected, one, other)


async def check_beside_confluent(options: Options, settings: Options, broker: Broker) -> None:
    """One member of ours and one of confluent-kafka share the partitions, whoever came first."""
    for comes_first in (True, False):
        topic, group = await new_topic(broker), broker.fresh("group")
        expected = await produced(broker, topic)
        readers: list[AbstractAsyncContextManager[Reading | Neighbour]] = [
            Reading.of(broker, group, topic, **options),
            Neighbour.of(broker, group, topic, **settings),
        ]
        first, second = readers if comes_first else reversed(readers)
        async with first as one:
            await until("partitions of the first", one.places, set(range(PARTITIONS)))
            async with second as other:
                await _until_shared(one, other)
                expected += await produced(broker, topic)
                await _until_read(expected, one, other)


async def check_static(options: Options, broker: Broker) -> None:
    """A static member that comes back has its partitions again, and the other one hears nothing of it (KIP-345)."""
    topic, group = await new_topic(broker), broker.fresh("group")
    async with Reading.of(broker, group, topic, group_instance_id="one", **options) as one:
        async with Reading.of(broker, group, topic, group_instance_id="two", **options) as two:
            await _until_shared(one, two)
            had, generation = await two.places(), await _settled(one, two)
        async with Reading.of(broker, group, topic, group_instance_id="two", **options) as again:
            await until("partitions of the one that is back", again.places, had)
            expected = await produced(broker, topic)
            await _until_read(expected, one, again)
            same("generations", [await _settled(one, again)], [generation])


async def check_fenced_static(options: Options, broker: Broker) -> None:
    """Of two that run under one name the older one ends."""
    topic, group = await new_topic(broker), broker.fresh("group")
    await produced(broker, topic)
    async with Reading.of(broker, group, topic, group_instance_id="one", **options) as one:
        await until("partitions of the first", one.places, set(range(PARTITIONS)))
        async with Reading.of(broker, group, topic, group_instance_id="one", **options) as second:
            await until("partitions of the second", second.places, set(range(PARTITIONS)))

            async def ended() -> bool:
                return one.error is not None

            await until("the first has ended", ended, True)
    assert isinstance(one.error, BrokerError), repr(one.error)
    assert one.error.code == ErrorCode.FENCED_INSTANCE_ID, one.error


async def _until_shared(one: Reading | Neighbour, other: Reading | Neighbour) -> None:
    """Both have some, and together all."""

    async def is_shared() -> tuple[bool, list[int]]:
        mine, theirs = await one.places(), await other.places()
        return bool(mine) and bool(theirs), sorted([*mine, *theirs])

    await until("partitions of both", is_shared, (True, list(range(PARTITIONS))))


async def _settled(one: Reading, other: Reading) -> int:
    """The generation of the group, once both know it."""

    async def differs() -> bool:
        return one.member.group_metadata.generation_id != other.member.group_metadata.generation_id

    await until("the generations of both differ", differs, False)
    return one.member.group_metadata.generation_id


async def _until_read(expected: Sequence[Record], *readers: Reading | Neighbour) -> None:
    """Each record is given to one of them, at least once, and nothing else is."""

    async def missing() -> int:
        for reader in readers:
            await reader.places()
        return len(set(expected) - {record for reader in readers for record in reader.records})

    await until("records that nobody was given", missing, 0)
    strangers = {record for reader in readers for record in reader.records} - set(expected)
    same("records that nobody sent", sorted(strangers, key=_place), [])


def _place(record: Record) -> tuple[int, int]:
    return record.partition, record.offset


RANGE: Final = (
    MappingProxyType({"assignors": ("range",)}),
    MappingProxyType({"partition.assignment.strategy": "range"}),
)
COOPERATIVE: Final = (
    MappingProxyType({"assignors": ("cooperative-sticky",)}),
    MappingProxyType({"partition.assignment.strategy": "cooperative-sticky"}),
)
KIP_848: Final = (CONSUMER, MappingProxyType({"group.protocol": "consumer"}))

CHECKS: Final = (
    Check("Member: one after the other", partial(check_alone, CLASSIC)),
    Check("Member: two", partial(check_two, CLASSIC)),
    Check("Member: beside confluent-kafka, range", partial(check_beside_confluent, *RANGE)),
    Check("Member: beside confluent-kafka, cooperative-sticky", partial(check_beside_confluent, *COOPERATIVE)),
    Check("Member: static", partial(check_static, RANGE[0]), since=(2, 3)),
    Check("Member: static, fenced", partial(check_fenced_static, CLASSIC), since=(2, 3)),
    Check("consumer protocol: one after the other", partial(check_alone, CONSUMER), since=(4, 0)),
    Check("consumer protocol: two", partial(check_two, CONSUMER), since=(4, 0)),
    Check("consumer protocol: beside confluent-kafka", partial(check_beside_confluent, *KIP_848), since=(4, 0)),
)
