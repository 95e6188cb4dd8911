"""Transactions, and their misuse."""

from __future__ import annotations

import asyncio
import gc
import uuid
from typing import Any

import pytest
from aiokafka.errors import IllegalOperation, KafkaError, MessageSizeTooLargeError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from aioprod.admin import Admin
from tests.support.aiokafka_pairs.pair import Pair, behaviour


def fresh(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:8]}"


@behaviour()
async def a_block_commits_at_its_end(pair: Pair) -> None:
    one, two = await pair.topic(), await pair.topic()
    async with pair.running(transactional_id=fresh("till")) as producer:
        for number in range(2):
            async with producer.transaction():
                await producer.send(one, b"%d" % number)
                await producer.send_and_wait(two, b"%d" % number)
    for topic in (one, two):
        assert await pair.values(topic, "read_committed") == [b"0", b"1"]


@behaviour()
async def an_exception_aborts_and_comes_out(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(transactional_id=fresh("till")) as producer:

        async def sell() -> None:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"no")
                raise LookupError("sold out")

        with pytest.raises(LookupError, match="sold out"):
            await sell()
        async with producer.transaction():
            await producer.send(topic, b"yes")
    assert await pair.values(topic) == [b"no", b"yes"]
    assert await pair.values(topic, "read_committed") == [b"yes"]


@behaviour()
async def single_calls_do_the_same(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(transactional_id=fresh("till")) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"no")
        await producer.abort_transaction()
        await producer.begin_transaction()
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"yes")
        await producer.send_batch(batch, topic, partition=0)
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.commit_transaction()
    assert await pair.values(topic, "read_committed") == [b"yes"]


@behaviour()
async def offsets_are_committed_with_the_transaction(pair: Pair) -> None:
    topic, group = await pair.topic(3), fresh("group")
    offsets: dict[Any, Any] = {
        TopicPartition(topic, 0): 5,
        TopicPartition(topic, 1): (6, "text"),
        TopicPartition(topic, 2): OffsetAndMetadata(7, ""),
    }
    async with pair.running(transactional_id=fresh("till")) as producer:
        async with producer.transaction():
            await producer.send(topic, b"value")
            await producer.send_offsets_to_transaction(offsets, group)
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 9}, group)
        await producer.abort_transaction()
    async with Admin(pair.servers) as admin:
        committed = await admin.group_offsets(group)
    assert {place.partition: tuple(at) for place, at in committed.items()} == {0: (5, ""), 1: (6, "text"), 2: (7, "")}


@behaviour()
async def offsets_are_checked(pair: Pair) -> None:
    topic = await pair.topic()
    place = TopicPartition(topic, 0)
    async with pair.running(transactional_id=fresh("till")) as producer:
        with pytest.raises(IllegalOperation):
            await producer.send_offsets_to_transaction({place: 5}, "g")
        await producer.begin_transaction()
        for offsets, group in (({}, "g"), ([place], "g"), ({place: "5 6 7"}, "g"), ({place: 5}, ""), ({place: 5}, 7)):
            with pytest.raises(ValueError):  # noqa: PT011 - the texts are not the same
                await producer.send_offsets_to_transaction(offsets, group)
        for untyped in ({(topic, 0): 5}, {place: (5, b"text")}):
            with pytest.raises(TypeError):
                await producer.send_offsets_to_transaction(untyped, "g")
        await producer.abort_transaction()


@behaviour()
async def records_need_a_transaction(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(transactional_id=fresh("till")) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"value")
        for call in (producer.send(topic, b"value"), producer.send_batch(batch, topic, partition=0)):
            with pytest.raises(IllegalOperation):
                await call
    assert await pair.values(topic) == []


@behaviour()
async def transactions_need_an_id(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(enable_idempotence=True) as producer:
        calls = (
            producer.begin_transaction(),
            producer.commit_transaction(),
            producer.abort_transaction(),
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 5}, "g"),
        )
        for call in calls:
            with pytest.raises(IllegalOperation):
                await call
        with pytest.raises(IllegalOperation):
            async with producer.transaction():
                raise AssertionError("not reached")


@behaviour()
async def calls_out_of_turn_are_assertion_errors(pair: Pair) -> None:
    async with pair.running(transactional_id=fresh("till")) as producer:
        for call in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(AssertionError):
                await call()
        await producer.begin_transaction()
        with pytest.raises(AssertionError):
            await producer.begin_transaction()
        await producer.abort_transaction()


@behaviour(differs="a call of a fenced producer")
async def a_second_producer_with_the_id_fences_the_first(pair: Pair) -> None:
    topic, name = await pair.topic(), fresh("till")
    async with pair.running(transactional_id=name) as old:
        await old.begin_transaction()
        await old.send_and_wait(topic, b"old")
        async with pair.running(transactional_id=name) as new:
            async with new.transaction():
                await new.send(topic, b"new")
            with pytest.raises(ProducerFenced):
                await (await old.send(topic, b"late"))
        with pytest.raises(pair.either((KafkaError, AssertionError), ProducerFenced)):
            await old.commit_transaction()
    assert await pair.values(topic, "read_committed") == [b"new"]


@behaviour(differs="a transaction one of whose records failed")
async def a_record_that_failed_spoils_the_commit(pair: Pair) -> None:
    topic = await pair.topic(max_message_bytes=1000)
    async with pair.running(transactional_id=fresh("till")) as producer:
        await producer.begin_transaction()
        fine = await producer.send(topic, b"fine")
        await fine
        future = await producer.send(topic, b"x" * 5000)
        with pytest.raises(KafkaError):
            await future
        if pair.is_ours:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.commit_transaction()
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
    assert await pair.values(topic, "read_committed") == pair.either([b"fine"], [])


@behaviour(differs="a record that an abort finds unsent")
async def an_abort_leaves_no_future_open_and_logs_none(pair: Pair) -> None:
    topic = await pair.topic(2)
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    futures: list[asyncio.Future[Any]] = []
    async with pair.running(transactional_id=fresh("till"), linger_ms=20_000) as producer:

        async def sell() -> None:
            async with producer.transaction():
                futures.append(await producer.send(topic, b"one", partition=0))
                futures.append(await producer.send(topic, b"two", partition=0))
                batch = producer.create_batch()
                batch.append(timestamp=None, key=None, value=b"three")
                futures.append(await producer.send_batch(batch, topic, partition=1))
                raise LookupError("sold out")

        with pytest.raises(LookupError, match="sold out"):
            await sell()
        await asyncio.wait(futures)
        if pair.is_ours:
            with pytest.raises(KafkaError, match="aborted"):
                await futures[0]
        else:
            assert (await futures[0]).offset == 0
        futures.clear()
        gc.collect()
    assert reported == []
    assert await pair.values(topic) == pair.either([b"one", b"two", b"three"], [])
    assert await pair.values(topic, "read_committed") == []


@behaviour(differs="a block whose commit fails")
async def a_block_whose_commit_fails_is_over(pair: Pair) -> None:
    topic = await pair.topic(max_message_bytes=1000)
    async with pair.running(transactional_id=fresh("till")) as producer:

        async def block(size: int) -> None:
            async with producer.transaction():
                await producer.send(topic, b"x" * size)

        if pair.is_ours:
            with pytest.raises(MessageSizeTooLargeError):
                await block(5000)
        else:
            await block(5000)
        await block(10)
    # aiokafka does not use the lost sequence number again, so the broker rejects what comes after it.
    assert await pair.values(topic, "read_committed") == pair.either([], [b"x" * 10])
