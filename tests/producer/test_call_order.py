"""The order of calls for a topic while its schema, or whatever a serializer awaits, is looked up."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from aioprod import ProducerRecord
from aioprod.errors import InvalidTopicError, ProducerClosedError, SerializationError, UsageError
from aioprod.testing import FakeCluster
from aioprod.types import DeliveryReport
from tests.support.producers import running, turns


class Registry:
    """A serializer that looks up the schema of the first records of a topic, until the test answers."""

    def __init__(self) -> None:
        self.answers: dict[str, asyncio.Future[None]] = {}
        self.known: set[str] = set()

    def serialize(self, topic: str, headers: object, value: bytes) -> Any:
        return value if topic in self.known else self._look_up(topic, value)

    async def _look_up(self, topic: str, value: bytes) -> bytes:
        answer = self.answers.setdefault(topic, asyncio.get_running_loop().create_future())
        await asyncio.shield(answer)
        return value

    async def answer(self, topic: str, error: Exception | None = None) -> None:
        await turns()
        if error is None:
            self.known.add(topic)
            self.answers[topic].set_result(None)
        else:
            self.answers[topic].set_exception(error)


async def test_what_is_sent_later_is_accepted_later(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    registry = Registry()
    async with running(brokers, value_serializer=registry) as producer:
        await producer.partitions_for("t")
        first = [asyncio.create_task(producer.send("t", b"%d" % n)) for n in range(3)]
        many = asyncio.create_task(producer.send_many("t", [b"3"]))
        await turns()
        registry.known.add("t")  # The look-up of the records before is not over yet.
        later = asyncio.create_task(producer.send("t", b"4"))
        with pytest.raises(UsageError, match="Earlier records for topic 't' wait for their serializer"):
            producer.submit("t", b"no")
        with pytest.raises(UsageError, match="Earlier records"):
            producer.send_nowait("t", b"no")
        await registry.answer("t")
        await asyncio.gather(*first, many, later)
        assert (await producer.submit("t", b"5")).offset == 5
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(6)]


async def test_other_topics_do_not_wait(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    brokers.create_topic("other")
    registry = Registry()
    async with running(brokers, value_serializer=registry) as producer:
        waiting = asyncio.create_task(producer.send("t", b"0"))
        await turns()
        registry.known.add("other")
        await producer.send("other", b"1")
        await producer.submit("other", b"2")
        with pytest.raises(InvalidTopicError):
            await producer.send(ProducerRecord(["t"], b"no"))  # type: ignore[arg-type]
        assert not waiting.done()
        await registry.answer("t")
        await waiting


async def test_a_failed_look_up_fails_its_records_alone(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    registry = Registry()
    async with running(brokers, value_serializer=registry) as producer:
        first = asyncio.create_task(producer.send("t", b"0"))
        await turns()
        registry.known.add("t")
        second = asyncio.create_task(producer.send("t", b"1"))
        await registry.answer("t", ValueError("no such schema"))
        with pytest.raises(SerializationError, match="no such schema"):
            await first
        await second
    assert [record.value for record in topic.records()] == [b"1"]


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_a_cancelled_call_leaves_the_others_in_order(brokers: FakeCluster, cancelled: int) -> None:
    topic = brokers.create_topic("t")
    registry = Registry()
    async with running(brokers, value_serializer=registry) as producer:
        tasks = [asyncio.create_task(producer.send("t", b"%d" % n)) for n in range(2)]
        await turns()
        registry.known.add("t")
        tasks += [asyncio.create_task(producer.send("t", b"%d" % n)) for n in range(2, 4)]
        await turns()
        tasks[cancelled].cancel()
        await turns()
        assert [task.done() for task in tasks] == [n == cancelled for n in range(4)], "the first look-up goes on"
        await registry.answer("t")
        await asyncio.wait(tasks)
    kept = [b"%d" % n for n in range(4) if n != cancelled]
    assert [record.value for record in topic.records()] == kept


async def test_a_close_ends_those_who_wait_for_others(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    registry = Registry()
    async with running(brokers, value_serializer=registry) as producer:
        first = asyncio.create_task(producer.send("t", b"0"))
        await turns()
        registry.known.add("t")
        second = asyncio.create_task(producer.send("t", b"1"))
        many = asyncio.create_task(producer.send_many("t", [b"2"]))
        await turns()
        assert await producer.close() == DeliveryReport()
        for task in (second, many):
            with pytest.raises(ProducerClosedError):
                await task
        assert not first.done(), "its serializer is still awaited"
        await registry.answer("t")
        with pytest.raises(ProducerClosedError):
            await first


async def test_arrow_data_waits_for_earlier_records(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    registry = Registry()
    async with running(brokers, value_serializer=registry) as producer:
        first = asyncio.create_task(producer.send("t", b"0"))
        await turns()
        rows = pa.record_batch({"value": [b"1"], "topic": ["t"]})
        sending = asyncio.create_task(producer.send_arrow(rows))
        await turns()
        await registry.answer("t")
        await asyncio.gather(first, sending)
    assert [record.value for record in topic.records()] == [b"0", b"1"]
