"""Checks of transactions: commit and abort, offsets, fencing, a rejected record, a lost connection, a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from aioprod import OffsetAndMetadata, Producer, TopicPartition, TransactionSession
from aioprod.errors import ErrorCode, ProducerFencedError, RejectedError, TransactionAbortedError
from integration.brokers.broker import Broker
from integration.brokers.comparing import Record, check_stored, same, until
from integration.brokers.registry import Check
from integration.brokers.sending import given, new_topic, sent
from integration.support.groups import group_offsets

__all__ = ["CHECKS", "committed_offset", "transactional"]

RECORDS: Final = 300


def transactional(broker: Broker, transactional_id: str | None = None, **options: Any) -> Any:
    """A producer with an id of its own, and patience for a slow machine."""
    return Producer(
        broker.bootstrap_servers,
        transactional_id=transactional_id or broker.fresh("producer"),
        request_timeout_ms=60_000,
        max_block_ms=120_000,
        **options,
    )


async def committed_offset(broker: Broker, group: str, place: TopicPartition) -> int | None:
    """What a group has committed for a partition, as confluent-kafka is told; None for nothing."""
    found = await asyncio.to_thread(group_offsets, broker.bootstrap_servers, group, [place])
    return found.get(place)


async def check_ends(broker: Broker) -> None:
    """Commit, abort, an empty transaction, and many in a row."""
    topic = await new_topic(broker)
    committed: list[Record] = []
    aborted: list[Record] = []
    async with transactional(broker) as producer:
        for number in range(12):
            await producer.begin_transaction()
            records = [] if number % 4 == 3 else await sent(producer, topic, given(RECORDS))
            if number % 4 == 1:
                await producer.abort_transaction()
                aborted += records
            else:
                await producer.commit_transaction()
                committed += records
    await check_stored(broker, topic, committed, aborted)


async def check_offsets_by_name(broker: Broker) -> None:
    """Offsets of a group that is given by its name: those of a commit are the group's, those of an abort are not."""
    topic, group = await new_topic(broker), broker.fresh("group")
    place = TopicPartition(topic, 0)

    async def found() -> int | None:
        return await committed_offset(broker, group, place)

    async with transactional(broker) as producer:
        for offset, commits, expected in ((5, True, 5), (9, False, 5), (7, True, 7)):
            await producer.begin_transaction()
            await producer.send(topic, b"a result")
            await producer.send_offsets_to_transaction({place: offset}, group)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
            # Brokers before 2.5 don't say that offsets of a transaction are still on their way.
            await until(f"offset of {group}", found, expected)


async def check_fencing(broker: Broker) -> None:
    """A second producer with the same id takes over."""
    topic, name = await new_topic(broker), broker.fresh("producer")
    async with transactional(broker, name) as first, transactional(broker, broker.fresh("other")) as other:
        await first.begin_transaction()
        aborted = await sent(first, topic, given(RECORDS))
        async with other.transaction():
            committed = await sent(other, topic, given(RECORDS))
        async with transactional(broker, name) as second:
            try:
                await first.commit_transaction()
            except ProducerFencedError:
                pass
            else:
                raise AssertionError("The producer that was replaced could commit.")
            async with second.transaction():
                committed += await sent(second, topic, given(RECORDS))
    await check_stored(broker, topic, committed, aborted)


async def check_refused_record(broker: Broker) -> None:
    """A record that the broker refuses aborts its transaction; the producer goes on."""
    topic = await new_topic(broker, **{"max.message.bytes": 2000})
    async with transactional(broker) as producer:
        await producer.begin_transaction()
        aborted = await sent(producer, topic, given(3))
        try:
            await producer.send(topic, b"x" * 50_000)
        except RejectedError as error:
            refusal = error.code
        else:
            raise AssertionError("The broker took a record of 50 kB, where 2 kB are the most.")
        same("the broker's answer", [refusal], [ErrorCode.MESSAGE_TOO_LARGE])
        try:
            await producer.commit_transaction()
        except TransactionAbortedError:
            await producer.abort_transaction()
        else:
            raise AssertionError("A transaction was committed without one of its records.")
        committed: list[Record] = []
        for _ in range(3):
            async with producer.transaction():
                committed += await sent(producer, topic, given(3))
    await check_stored(broker, topic, committed, aborted)


async def check_cut(broker: Broker) -> None:
    """The connection is lost in the request, then in the answer of a commit, which succeeds; the producer goes on."""
    topic = await new_topic(broker)
    committed: list[Record] = []
    async with transactional(broker) as producer:
        for direction in (broker.proxy.to_target, broker.proxy.to_client):
            await producer.begin_transaction()
            committed += await sent(producer, topic, given(RECORDS))
            direction.cut_after_bytes = 1
            await producer.commit_transaction()
            same("bytes until the cut", [direction.cut_after_bytes], [None])
            for _ in range(2):
                async with producer.transaction():
                    committed += await sent(producer, topic, given(3))
    await check_stored(broker, topic, committed)


async def check_session(broker: Broker) -> None:
    """A transaction that several producers write; a commit, an abort, and a session that takes over."""
    topic, group, name = await new_topic(broker), broker.fresh("group"), broker.fresh("session")
    place = TopicPartition(topic, 0)
    committed: list[Record] = []
    aborted: list[Record] = []
    for number, commits in enumerate((True, False, True)):
        async with TransactionSession(
            broker.bootstrap_servers, transactional_id=name, default_api_timeout_ms=120_000
        ) as session:
            session.check_brokers()
            handle = await session.begin()
            written = await asyncio.gather(*(_written(broker, handle, topic, partition) for partition in range(3)))
            await session.send_offsets({place: number + 1}, group)
            await (session.commit() if commits else session.abort())
            (committed if commits else aborted).extend(_flat(written))
            found = await session.committed_offsets(group, [place])
            same("committed offset", [found[place]], [OffsetAndMetadata(number + 1 if commits else number)])
    await check_stored(broker, topic, committed, aborted)


async def _written(broker: Broker, handle: Any, topic: str, partition: int) -> list[Record]:
    own = [one for one in given(RECORDS) if one.partition == partition]
    async with handle.producer(broker.bootstrap_servers, request_timeout_ms=60_000) as producer:
        return await sent(producer, topic, own)


def _flat(parts: Iterable[Iterable[Record]]) -> list[Record]:
    return [record for part in parts for record in part]


CHECKS: Final = (
    Check("transactions: commit, abort, empty", check_ends),
    Check("transactions: offsets by the group's name", check_offsets_by_name),
    Check("transactions: fencing", check_fencing),
    Check("transactions: after a refused record", check_refused_record),
    Check("transactions: connection cut during commit", check_cut),
    Check("TransactionSession", check_session, since=(3, 0)),
)
