"""What producers, transactions, readers and members may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pytest

from aioprod import Producer, TransactionSession
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    NotSentError,
    Operation,
    RejectedError,
    ResourceType,
    TransactionAbortedError,
)
from aioprod.group import Member
from aioprod.reader import read
from aioprod.testing import Acl
from aioprod.types import RecordMetadata, TopicPartition
from tests.support.acl_scenarios.bench import Bench, Scenario, causes_of, denied, error_of, new_name

__all__ = ["SCENARIOS"]


# --- writing


async def callback_error(producer: Producer, topic: str, value: bytes) -> AioprodError | None:
    """The error that the callback of `send_nowait` gets."""
    outcome: asyncio.Future[AioprodError | None] = asyncio.get_running_loop().create_future()

    def on_delivery(_: RecordMetadata | None, error: AioprodError | None) -> None:
        outcome.set_result(error)

    producer.send_nowait(topic, value, on_delivery=on_delivery)
    return await outcome


async def a_topic_that_may_not_be_written(bench: Bench) -> None:
    """Each call fails with the missing right; records of the other topic in the same request are stored."""
    await bench.allow("DESCRIBE", "topic", bench.secret)
    async with bench.producer() as producer:
        futures = [producer.submit(topic, b"1") for topic in (bench.ok, bench.secret, bench.ok)]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        errors = [error for error in outcomes if isinstance(error, BaseException)]
        assert len(errors) == 1
        errors.append(await error_of(producer.send(bench.secret, b"2"), RejectedError))
        outcome = await asyncio.gather(*(callback_error(producer, topic, b"3") for topic in (bench.secret, bench.ok)))
        assert outcome[0] is not None
        assert outcome[1] is None
        errors.append(outcome[0])
        results = await asyncio.gather(*(producer.send_many(topic, [b"4", b"4"]) for topic in (bench.secret, bench.ok)))
        assert [len(result.failures) for result in results] == [2, 0]
        errors += [error for _, error in results[0].failures]
        table = pa.table({"value": [b"5", b"5", b"5"], "topic": [bench.ok, bench.secret, bench.ok]})
        arrow = await producer.send_arrow(table)
        assert [row for row, _ in arrow.failures] == [1]
        errors.append(arrow.failures[0][1])
        for error in errors:
            assert type(error) is RejectedError
            assert error.topic == bench.secret
            cause = denied(error.__cause__, "WRITE", "topic", bench.secret)
            assert error.hint == cause.hint
        await bench.allow("WRITE", "topic", bench.secret)
        await producer.send(bench.secret, b"allowed")
        await producer.send_many(bench.secret, [b"allowed"])
    await bench.stores(bench.ok, [b"1", b"1", b"3", b"4", b"4", b"5", b"5"])
    await bench.stores(bench.secret, [b"allowed", b"allowed"])


async def a_topic_that_is_hidden(bench: Bench) -> None:
    """Without DESCRIBE a client can't know whether it exists: the error is the same for a missing topic."""
    missing = new_name()
    async with bench.producer() as producer:
        for topic in (bench.secret, missing):
            calls: list[Awaitable[Any]] = [
                producer.send(topic, b"1"),
                producer.send_many(topic, [b"2"]),
                producer.partitions_for(topic),
            ]
            for call in calls:
                error = await error_of(call)
                assert error.message.startswith(f"Topic {topic!r} does not exist, or this client may not describe it")
                denied(error, "DESCRIBE", "topic", topic, "WRITE")
            accepted = [
                await error_of(producer.submit(topic, b"3"), NotSentError),
                await callback_error(producer, topic, b"4"),
            ]
            for lost in accepted:
                assert type(lost) is NotSentError
                denied(lost.__cause__, "DESCRIBE", "topic", topic, "WRITE")
            table = pa.table({"value": [b"5", b"5"], "topic": [topic, bench.ok]})
            ((row, failure),) = (await producer.send_arrow(table)).failures
            assert row == 0
            denied(failure, "DESCRIBE", "topic", topic, "WRITE")
            await producer.send(bench.ok, b"6")
        for topic in (bench.secret, missing):
            await bench.allow("WRITE", "topic", topic)
        await producer.send(bench.secret, b"allowed")
        # It may be described, but does not exist: auto-creation needs another right.
        error = await error_of(producer.send(missing, b"1"))
        assert "allow CREATE on it" in str(error.hint)
        await bench.allow("CREATE", "topic", missing)
        await producer.send(missing, b"created")
    await bench.stores(bench.ok, [b"5", b"5", b"6", b"6"])
    await bench.stores(bench.secret, [b"allowed"])
    await bench.stores(missing, [b"created"])


async def idempotent_writes(bench: Bench) -> None:
    """They need WRITE on at least one topic (KIP-679), which this user does not have."""
    bench.user = new_name()
    error = await error_of(bench.producer().start())
    denied(error, "IDEMPOTENT_WRITE", "cluster", "kafka-cluster")
    assert "WRITE on any topic" in str(error.hint)
    assert "enable.idempotence=false" in str(error.hint)
    async with bench.producer(enable_idempotence=False):
        pass
    await bench.allow("IDEMPOTENT_WRITE", "cluster", "kafka-cluster")
    async with bench.producer():
        pass


# --- transactions


async def a_transactional_id(bench: Bench) -> None:
    """FindCoordinator needs DESCRIBE, InitProducerId WRITE."""
    options = {"transactional_id": bench.transactional_id}
    error = await error_of(bench.producer(**options).start())
    denied(error, "DESCRIBE", "transactional_id", bench.transactional_id, "WRITE")
    await bench.allow("DESCRIBE", "transactional_id", bench.transactional_id)
    error = await error_of(bench.producer(**options).start())
    denied(error, "WRITE", "transactional_id", bench.transactional_id)
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    async with bench.producer(**options) as producer, producer.transaction():
        await producer.send(bench.ok, b"1")
    await bench.stores(bench.ok, [b"1"])


async def a_transactional_id_that_is_taken_away(bench: Bench) -> None:
    """As in Java the producer fails: every later call raises."""
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    async with bench.producer(transactional_id=bench.transactional_id) as producer:
        await producer.begin_transaction()
        await producer.send(bench.ok, b"lost")
        await bench.add_acls(
            Acl(f"User:{bench.user}", "WRITE", "transactional_id", bench.transactional_id, permission="deny")
        )
        error = await error_of(producer.send(bench.ok, b"lost"), RejectedError)
        denied(error.__cause__, "WRITE", "transactional_id", bench.transactional_id)
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            denied(await error_of(call()), "WRITE", "transactional_id", bench.transactional_id)
    await bench.stores(bench.ok, [])


async def topics_in_a_transaction(bench: Bench) -> None:
    """As in Java the transaction can only be aborted then, and the producer continues with the next one."""
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    async with bench.producer(transactional_id=bench.transactional_id) as producer:
        for rights in (("DESCRIBE", "WRITE"), ("WRITE",)):
            await producer.begin_transaction()
            await producer.send(bench.ok, b"lost")
            lost = producer.submit(bench.secret, b"lost")
            with pytest.raises(DeliveryError) as caught:
                await lost
            denied(causes_of(caught.value)[-1], rights[0], "topic", bench.secret, *rights[1:])
            aborted = await error_of(producer.commit_transaction(), TransactionAbortedError)
            denied(causes_of(aborted)[-1], rights[0], "topic", bench.secret, *rights[1:])
            await producer.abort_transaction()
            await bench.allow(rights[0], "topic", bench.secret)
        async with producer.transaction():
            await producer.send(bench.ok, b"kept")
            await producer.send(bench.secret, b"kept")
    await bench.stores(bench.ok, [b"kept"])
    await bench.stores(bench.secret, [b"kept"])


async def offsets_in_a_transaction(bench: Bench) -> None:
    """They need READ on the group and on each topic; without that the transaction can only be aborted."""
    await bench.allow("WRITE", "transactional_id", bench.transactional_id)
    offsets = {TopicPartition(bench.secret, 0): 7}
    steps: list[tuple[Operation, ResourceType, str, tuple[Operation, ...]]] = [
        ("DESCRIBE", "group", bench.group, ("READ",)),
        ("READ", "group", bench.group, ()),
        ("READ", "topic", bench.secret, ()),
    ]
    async with bench.producer(transactional_id=bench.transactional_id) as producer:
        for operation, resource_type, name, more in steps:
            await producer.begin_transaction()
            await producer.send(bench.ok, b"lost")
            error = await error_of(producer.send_offsets_to_transaction(offsets, bench.group))
            denied(error, operation, resource_type, name, *more)
            aborted = await error_of(producer.commit_transaction(), TransactionAbortedError)
            denied(causes_of(aborted)[-1], operation, resource_type, name, *more)
            await producer.abort_transaction()
            await bench.allow(operation, resource_type, name)
        async with producer.transaction():
            await producer.send(bench.ok, b"kept")
            await producer.send_offsets_to_transaction(offsets, bench.group)
    await bench.stores(bench.ok, [b"kept"])


async def a_transaction_session(bench: Bench) -> None:
    """It needs the rights of a transactional producer, except those of its workers, which write."""
    await bench.allow("DESCRIBE", "transactional_id", bench.transactional_id)
    tp = TopicPartition(bench.secret, 0)
    async with TransactionSession(**bench.options(), transactional_id=bench.transactional_id) as session:
        denied(await error_of(session.begin()), "WRITE", "transactional_id", bench.transactional_id)
        await bench.allow("WRITE", "transactional_id", bench.transactional_id)
        handle = await session.begin()
        async with handle.producer(**bench.options()) as producer:
            await producer.send(bench.ok, b"lost")
        denied(await error_of(session.send_offsets({tp: 7}, bench.group)), "DESCRIBE", "group", bench.group, "READ")
        await session.abort()
        denied(await error_of(session.committed_offsets(bench.group, [tp])), "DESCRIBE", "group", bench.group, "READ")
        await bench.allow("DESCRIBE", "group", bench.group)
        denied(await error_of(session.committed_offsets(bench.group, [tp])), "DESCRIBE", "topic", bench.secret)
        await bench.allow("READ", "topic", bench.secret)
        await session.begin()
        aborted = await error_of(session.send_offsets({tp: 7}, bench.group), TransactionAbortedError)
        denied(aborted.__cause__, "READ", "group", bench.group)
        await session.abort()
        await bench.allow("READ", "group", bench.group)
        handle = await session.begin()
        async with handle.producer(**bench.options()) as producer:
            await producer.send(bench.ok, b"kept")
        await session.send_offsets({tp: 7}, bench.group)
        await session.commit()
        committed = (await session.committed_offsets(bench.group, [tp]))[tp]
        assert committed is not None
        assert committed.offset == 7
    await bench.stores(bench.ok, [b"kept"])


# --- reading


async def reading(bench: Bench) -> None:
    """A reader needs DESCRIBE first, then READ."""
    async with bench.producer() as producer:
        await producer.send(bench.ok, b"1")

    async def values(topic: str) -> list[bytes | None]:
        return [record.value async for record in read(topic, **bench.options())]

    denied(await error_of(values(bench.secret)), "DESCRIBE", "topic", bench.secret, "READ")
    denied(await error_of(values(bench.ok)), "READ", "topic", bench.ok)
    await bench.allow("READ", "topic", bench.ok)
    assert await values(bench.ok) == [b"1"]


async def membership(bench: Bench, protocol: str) -> None:
    """The rights that a member needs: to find the group, to join, to describe and read topics, to commit."""
    group = bench.group

    def member(topic: str) -> Member:
        options = bench.options(group_protocol=protocol)
        return Member(group_id=group, topics=topic, auto_offset_reset="earliest", **options)

    async def first_of(topic: str) -> object:
        async with member(topic) as joined:
            return (await anext(joined)).value

    await bench.allow("DESCRIBE", "topic", bench.secret)
    denied(await error_of(first_of(bench.secret)), "DESCRIBE", "group", group, "READ")
    await bench.allow("DESCRIBE", "group", group)
    denied(await error_of(first_of(bench.secret)), "READ", "group", group)
    await bench.allow("READ", "group", group)
    denied(await error_of(first_of(bench.ok)), "DESCRIBE", "topic", bench.ok, "READ")
    await bench.allow("DESCRIBE", "topic", bench.ok)
    async with member(bench.ok) as joined:
        denied(await error_of(anext(joined)), "READ", "topic", bench.ok)
        await bench.allow("READ", "topic", bench.ok)
        assert (await anext(joined)).value == b"1"
        await joined.commit()
        denied(await error_of(joined.commit({TopicPartition(bench.secret, 0): 1})), "READ", "topic", bench.secret)


async def members_of_groups(bench: Bench) -> None:
    """By both protocols, each with its own user and group."""
    async with bench.producer() as producer:
        await producer.send(bench.ok, b"1")
    for protocol in ("classic", "consumer"):
        await membership(replace(bench, user=new_name(), group=new_name()), protocol)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    a_topic_that_may_not_be_written,
    a_topic_that_is_hidden,
    idempotent_writes,
    a_transactional_id,
    a_transactional_id_that_is_taken_away,
    topics_in_a_transaction,
    offsets_in_a_transaction,
    a_transaction_session,
    reading,
    members_of_groups,
)
