"""send_many(): one call, one result, back-pressure inside, faults of single records by their index."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import (
    BufferFullError,
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    ProducerClosedError,
    RecordTooLargeError,
    RejectedError,
    SerializationError,
)
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.producer.batching.lines import lines_of
from aioprod.producer.batching.topic_updates import forget
from aioprod.producer.bulk.send_many import RECORDS_PER_TURN
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakeTopic
from tests.support.producers import ErrorLog, Spy, running, turns, until

SMALL: dict[str, Any] = {"buffer_memory": 4096, "batch_size": 1024, "max_request_size": 4096}


def values(topic: FakeTopic) -> list[bytes | None]:
    return [record.value for record in topic.records()]


async def one_by_one(items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item


@pytest.mark.parametrize(
    "given",
    [
        [b"a", b"b"],
        (b"a", b"b"),
        {b"a": 1, b"b": 2},
        iter([b"a", b"b"]),
        (value for value in [b"a", b"b"]),
        lines_of(b"a\nb"),
    ],
    ids=["list", "tuple", "dict", "iterator", "generator", "lines"],
)
async def test_any_iterable_will_do(brokers: FakeCluster, given: Any) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        result = await producer.send_many("t", given)
    assert (result.count, result.offsets) == (2, {TopicPartition("t", 0): (range(2),)})
    assert values(topic) == [b"a", b"b"]


async def test_an_async_iterable_will_do_too(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        result = await producer.send_many("t", one_by_one([b"%d" % n for n in range(50)]))
    assert (result.count, result.offsets) == (50, {TopicPartition("t", 0): (range(50),)})
    assert values(topic) == [b"%d" % n for n in range(50)]


async def test_lines_may_be_many_and_have_keys_and_interceptors(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    texts = [b"%d" % number for number in range(3 * RECORDS_PER_TURN + 1)]
    lines = lines_of(b"\n".join(texts))
    async with running(brokers) as producer:
        assert (await producer.send_many("t", lines)).count == len(texts)
        assert (await producer.send_many("t", lines, keys=texts)).count == len(texts)
        with pytest.raises(InvalidRecordError, match="keys for only 2 of its values"):
            await producer.send_many("t", lines[:3], keys=iter(texts[:2]))
    async with running(brokers, interceptors=[Spy()]) as producer:
        assert (await producer.send_many("t", lines[:3])).count == 3
    assert values(topic) == texts + texts + texts[:2] + texts[:3]
    assert [record.key for record in topic.records()][: 2 * len(texts)] == [None] * len(texts) + texts


@pytest.mark.parametrize("given", [[], (), one_by_one([])])
async def test_nothing_to_send(brokers: FakeCluster, given: Any) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        result = await producer.send_many("t", given)
    assert (result.count, result.offsets, result.failures) == (0, {}, ())


@pytest.mark.parametrize("headers", [None, [("h", b"x")], [[("h", b"x")]] * 3000])
@pytest.mark.parametrize("keys", [None, [b"k"] * 3000])
async def test_a_list_of_timestamps(brokers: FakeCluster, keys: list[bytes] | None, headers: Any) -> None:
    values = [b"%d" % number for number in range(3000)]
    brokers.create_topic("t", 3)
    async with running(brokers) as producer:
        timestamps = [10**12 + number % 7 for number in range(3000)]
        await producer.send_many("t", values, keys=keys, headers=headers, timestamps=timestamps)
    found = {record.value: record.timestamp for record in brokers.records("t")}
    assert found == dict(zip(values, timestamps, strict=True))


async def test_keys_headers_and_timestamps_for_each_value(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=3)
    when = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    async with running(brokers) as producer:
        result = await producer.send_many(
            "t",
            [b"0", b"1", b"2"],
            keys=[b"k0", None, b"k2"],
            partition=1,
            headers=[[("h", b"0")], None, []],
            timestamps=[5, when, 7],
        )
    assert result.offsets == {TopicPartition("t", 1): (range(3),)}
    stored = topic.partitions[1].records()
    assert [record.key for record in stored] == [b"k0", None, b"k2"]
    assert [record.headers for record in stored] == [(("h", b"0"),), (), ()]
    assert [record.timestamp for record in stored] == [5, round(when.timestamp() * 1000), 7]


async def test_headers_and_timestamp_for_all(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.send_many("t", [b"0", b"1"], headers=[("h", b"x"), ("i", None)], timestamps=9)
        await producer.send_many("t", [b"2"], headers=(), timestamps=datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC))
    assert [record.headers for record in topic.records()] == [(("h", b"x"), ("i", None))] * 2 + [()]
    assert [record.timestamp for record in topic.records()] == [9, 9, 86_400_000]


async def test_generators_of_keys_and_headers(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=4)

    def keys() -> Iterator[bytes]:
        n = 0
        while True:
            yield b"%d" % (n % 7)
            n += 1

    async with running(brokers) as producer:
        result = await producer.send_many(
            "t",
            (b"%d" % n for n in range(700)),
            keys=keys(),
            headers=([("n", b"%d" % n)] for n in range(700)),
            timestamps=iter(range(700)),
        )
    assert sum(len(offsets) for ranges in result.offsets.values() for offsets in ranges) == 700
    for partition in topic.partitions:
        stored = partition.records()
        assert all(int(record.value or b"") % 7 == int(record.key or b"") for record in stored)
        numbers = [int(record.value or b"") for record in stored]
        assert numbers == sorted(numbers)
        assert [record.headers for record in stored] == [(("n", b"%d" % n),) for n in numbers]
        assert [record.timestamp for record in stored] == numbers


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keys": [b"k"]}, r"1 keys for 3 values"),
        ({"keys": [b"k"] * 4}, r"4 keys for 3 values"),
        ({"keys": b"abc"}, r"keys of send_many is of type bytes"),
        ({"keys": 5}, r"keys of send_many is of type int"),
        ({"keys": iter([b"k"])}, r"keys for only 1 of its values"),
        ({"headers": [None]}, r"1 headers for 3 values"),
        ({"headers": "abc"}, r"headers of send_many is of type str"),
        ({"headers": 7}, r"headers of send_many is of type int"),
        ({"headers": (header for header in [None, None])}, r"headers for only 2 of its values"),
        ({"timestamps": [1, 2]}, r"2 timestamps for 3 values"),
        ({"timestamps": -1}, r"-1"),
        ({"timestamps": "now"}, r"timestamps of send_many is of type str"),
        ({"timestamps": 1.5}, r"float"),
        ({"timestamps": iter([])}, r"timestamps for only 0 of its values"),
        ({"partition": 1}, r"no partition 1: it has 1 \(0 to 0\)"),
        ({"partition": -1}, r"-1 is not a partition"),
        ({"partition": "0"}, r"'0' is not a partition"),
    ],
    ids=str,
)
async def test_what_concerns_the_call_raises(brokers: FakeCluster, options: dict[str, Any], said: str) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        with pytest.raises(InvalidRecordError, match=said):
            await producer.send_many("t", [b"a", b"b", b"c"], **options)


@pytest.mark.parametrize("given", [b"abc", "abc", bytearray(b"x"), memoryview(b"x"), 5, None])
async def test_values_that_are_no_iterable_of_values(brokers: FakeCluster, given: Any) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        with pytest.raises(InvalidRecordError, match="give an iterable of values"):
            await producer.send_many("t", given)
    assert brokers.seen_of(ProduceRequest) == []


async def test_faults_of_single_records_have_their_index(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    spy = Spy()
    given: list[Any] = [b"0", "no bytes", b"2", b"x" * 6000, b"4", None]
    async with running(brokers, max_request_size=5000, interceptors=[spy]) as producer:
        result = await producer.send_many("t", given, timestamps=[1, 2, 3, 4, -5, 6])
    assert result.count == 6
    assert [(index, type(error)) for index, error in result.failures] == [
        (1, SerializationError),
        (3, RecordTooLargeError),
        (4, InvalidRecordError),
    ]
    assert result.offsets == {TopicPartition("t", 0): (range(3),)}
    assert values(topic) == [b"0", b"2", None]
    assert len(spy.acknowledged) == 6


async def test_a_batch_in_the_middle_fails(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    async with running(brokers, batch_size=200, linger_ms=0) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION, partition=TopicPartition("t", 0), times=2)
        given = [b"%02d" % n + b" " * 30 for n in range(40)]
        result = await producer.send_many("t", given, keys=[b"%d" % n for n in range(40)])
    failed = [index for index, _ in result.failures]
    assert 0 < len(failed) < 40
    assert failed == sorted(failed)
    assert all(type(error) is RejectedError and error.partition == 0 for _, error in result.failures)
    assert len({id(error) for _, error in result.failures}) == len(failed)
    arrived = sorted(int((value or b"").split()[0]) for value in values(topic))
    assert sorted(arrived + failed) == list(range(40))
    assert sum(len(offsets) for ranges in result.offsets.values() for offsets in ranges) == len(arrived)


async def test_offsets_of_others_in_between_leave_gaps(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    more = asyncio.Event()

    async def given() -> AsyncIterator[bytes]:
        yield b"0"
        yield b"1"
        await more.wait()
        yield b"3"

    async with running(brokers) as producer:
        sending = asyncio.create_task(producer.send_many("t", given()))
        await until(lambda: producer.metrics()["record_send_total"] == 2)
        await producer.flush()
        await producer.send("t", b"2")
        more.set()
        result = await sending
    assert result.offsets == {TopicPartition("t", 0): (range(2), range(3, 4))}


async def test_two_calls_at_once_keep_their_records_apart(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        results = await asyncio.gather(
            producer.send_many("t", one_by_one([b"a%d" % n for n in range(40)])),
            producer.send_many("t", one_by_one([b"b%d" % n for n in range(40)])),
        )
    stored = values(topic)
    for name, result in zip((b"a", b"b"), results, strict=True):
        offsets = [offset for offsets in result.offsets[TopicPartition("t", 0)] for offset in offsets]
        assert [stored[offset] for offset in offsets] == [name + b"%d" % n for n in range(40)]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_tiny_buffer_slows_the_call_down(brokers: FakeCluster, asynchronous: bool) -> None:
    topic = brokers.create_topic("t")
    given = [b"%d " % n + b"x" * 500 for n in range(60)]
    async with running(brokers, **SMALL) as producer:
        result = await producer.send_many("t", one_by_one(given) if asynchronous else given)
    assert (result.count, result.failures) == (60, ())
    assert values(topic) == given


async def test_a_buffer_that_stays_full(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors = ErrorLog()
    async with running(brokers, on_error=errors, **SMALL) as producer:
        await producer.partitions_for("t")
        producer._engine.max_block_s = 0.03
        silence = brokers.fault(ProduceRequest, hold=True)
        with pytest.raises(BufferFullError, match=r"buffer\.memory=4096 stayed full") as raised:
            await producer.send_many("t", [b"x" * 1000] * 10)
        assert raised.value.may_be_stored is True, "some of them are on their way"
        with pytest.raises(BufferFullError) as raised:
            await producer.send_many("t", [b"x" * 1000] * 10)
        assert raised.value.may_be_stored is False
        silence.release()
        await producer.flush()
    assert errors.calls == []


async def test_a_cancelled_call_stops_and_accepted_records_are_delivered(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    spy = Spy()
    async with running(brokers, interceptors=[spy], **SMALL) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        sending = asyncio.create_task(producer.send_many("t", [b"x" * 1000] * 100))
        await hold.reached.wait()
        await until(lambda: producer.metrics()["waiting_senders"] == 1)
        accepted = producer.buffered.records
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert producer.metrics()["waiting_senders"] == 0
        hold.release()
        await producer.flush()
    assert len(topic.records()) == accepted == len(spy.acknowledged)


async def test_an_iterable_that_fails_ends_the_call_with_its_error(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")

    def broken() -> Iterator[bytes]:
        yield b"0"
        yield b"1"
        raise LookupError("no more")

    async with running(brokers) as producer:
        with pytest.raises(LookupError, match="no more"):
            await producer.send_many("t", broken())
        await producer.flush()
        assert (await producer.send("t", b"2")).partition == 0
    assert values(topic)[-1] == b"2"


async def test_serializers_that_are_awaited(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")

    async def serialize(value: int) -> bytes:
        await asyncio.sleep(0)
        if value == 3:
            raise ValueError("three")
        return b"%d" % value

    async with running(brokers, value_serializer=serialize, key_serializer=serialize) as producer:
        result = await producer.send_many("t", range(6), keys=range(10, 16))
    ((index, error),) = result.failures
    assert index == 3
    assert isinstance(error, SerializationError)
    assert values(topic) == [b"0", b"1", b"2", b"4", b"5"]
    assert [record.key for record in topic.records()] == [b"10", b"11", b"12", b"14", b"15"]


async def test_a_topic_that_is_forgotten_in_between_is_looked_up_again(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    more = asyncio.Event()

    async def given() -> AsyncIterator[bytes]:
        yield b"0"
        await more.wait()
        yield b"1"

    async with running(brokers) as producer:
        sending = asyncio.create_task(producer.send_many("t", given()))
        await until(lambda: topic.records())
        await producer.flush()
        known = producer._engine.parts.accumulator.topics["t"]
        forget(producer._engine.parts.accumulator, known, 0.0)
        producer._engine.parts.client.metadata.forget_topic("t")
        asked = len(brokers.seen_of(MetadataRequest))
        more.set()
        result = await sending
        assert len(brokers.seen_of(MetadataRequest)) > asked
    assert result.offsets == {TopicPartition("t", 0): (range(2),)}


async def test_close_0_fails_what_is_under_way(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        silence = brokers.fault(ProduceRequest, hold=True)
        sending = asyncio.create_task(producer.send_many("t", [b"0", b"1"]))
        await silence.reached.wait()
        await turns()
        report = await producer.close(0)
        result = await sending
        silence.release()
        with pytest.raises(ProducerClosedError):
            await producer.send_many("t", [b"v"])
    assert [index for index, error in result.failures if isinstance(error, DeliveryError)] == [0, 1]
    assert len(report.undelivered) == 2


async def test_acks_0_has_no_offsets(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, acks=0) as producer:
        result = await producer.send_many("t", [b"0", b"1"])
        await until(lambda: len(topic.records()) == 2)
    assert (result.count, result.offsets, result.failures) == (2, {}, ())


@pytest.mark.parametrize("batch_size", [0, 300, 16_384])
async def test_a_call_with_keys_stores_what_single_calls_would(brokers: FakeCluster, batch_size: int) -> None:
    """Runs of plain records end at full batches, and at values that are not bytes or can't be accepted."""
    together, singly = (brokers.create_topic(name, partitions=5) for name in ("together", "singly"))
    keys = [b"key %d" % (number % 17) for number in range(300)]
    given: list[Any] = [b"v%d" % number * (number % 29) for number in range(300)]
    given[50], given[120], given[200] = bytearray(b"array"), 7, None
    async with running(brokers, batch_size=batch_size, max_request_size=16_384) as producer:
        result = await producer.send_many("together", given, keys=keys)
        for key, value in zip(keys, given, strict=True):
            if value != 7:
                await producer.send("singly", value, key=key)
    assert [index for index, _ in result.failures] == [120]
    for both in zip(together.partitions, singly.partitions, strict=True):
        first, second = ([(record.key, record.value) for record in one.records()] for one in both)
        assert first == second
    stored = {tp.partition: sum(map(len, ranges)) for tp, ranges in result.offsets.items()}
    assert [stored.get(index, 0) for index in range(5)] == [len(list(one.records())) for one in together.partitions]
