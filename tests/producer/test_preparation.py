"""From what users give to what is sent: serializers, and one clear error for each kind of bad input."""

from __future__ import annotations

import asyncio
import datetime
import enum
from typing import Any

import pyarrow as pa
import pytest

from aioprod import Producer, ProducerRecord
from aioprod.errors import AioprodError, ConfigError, InvalidRecordError, SerializationError, UsageError
from aioprod.messages import ProduceRequest
from aioprod.producer.preparation import as_bytes, partition_index, timestamp_ms
from aioprod.records.headers import encode_headers
from aioprod.testing import FakeCluster
from tests.support.producers import Spy, running

pytestmark = pytest.mark.usefixtures("patient")

BAD: list[tuple[dict[str, Any], type[AioprodError], str]] = [
    ({"value": "text"}, SerializationError, r"The value of a record for topic 't' is of type str.*value_serializer"),
    ({"value": 5}, SerializationError, r"The value of a record for topic 't' is of type int"),
    ({"key": "text"}, SerializationError, r"The key of a record for topic 't' is of type str.*key_serializer"),
    ({"key": [1]}, SerializationError, r"is of type list"),
    ({"partition": -1}, InvalidRecordError, r"-1 is not a partition of topic 't'"),
    ({"partition": 1}, InvalidRecordError, r"no partition 1: it has 1"),
    ({"partition": True}, InvalidRecordError, r"True is not a partition"),
    ({"partition": 1.0}, InvalidRecordError, r"1\.0 is not a partition"),
    ({"partition": "0"}, InvalidRecordError, r"'0' is not a partition"),
    ({"timestamp": -1}, InvalidRecordError, r"timestamp -1 .* not between"),
    ({"timestamp": 2**63}, InvalidRecordError, r"not between 0 and 2\*\*63"),
    ({"timestamp": 1.5}, InvalidRecordError, r"timestamp .* is of type float"),
    ({"timestamp": True}, InvalidRecordError, r"timestamp .* is of type bool"),
    ({"timestamp": "now"}, InvalidRecordError, r"timestamp .* is of type str"),
    ({"timestamp": datetime.datetime(2024, 1, 1)}, InvalidRecordError, r"no time zone"),
    ({"timestamp": datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC)}, InvalidRecordError, r"not between"),
    ({"headers": [(5, b"")]}, SerializationError, r"name of header 0 is of type int"),
    ({"headers": [("a", "text")]}, SerializationError, r"value of header 'a' is of type str"),
    ({"headers": [("a",)]}, SerializationError, r"Header 0"),
    ({"headers": ["ab"]}, SerializationError, r"Header 0"),
    ({"headers": 5}, SerializationError, r"(?i)headers"),
    ({"headers": {"a": b"1"}}, SerializationError, r"(?i)header"),
    ({"headers": {}}, SerializationError, r"(?i)headers are of type dict"),
    ({"headers": 0}, SerializationError, r"(?i)headers are of type int"),
    ({"headers": False}, SerializationError, r"(?i)headers are of type bool"),
    ({"headers": [("\ud800", b"")]}, SerializationError, r"no UTF-8 form"),
]


@pytest.mark.parametrize("interceptors", [(), (Spy(),)], ids=["plain", "intercepted"])
@pytest.mark.parametrize(("record", "kind", "said"), BAD, ids=[str(record) for record, _, _ in BAD])
async def test_bad_input_raises_before_anything_is_sent(
    brokers: FakeCluster, interceptors: Any, record: dict[str, Any], kind: type[AioprodError], said: str
) -> None:
    topic = brokers.create_topic("t")
    record = {"value": b"v", **record}
    async with running(brokers, interceptors=interceptors) as producer:
        await producer.partitions_for("t")
        before = producer.submit("t", b"accepted before")
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(kind, match=said):
                call("t", **record)
        with pytest.raises(kind, match=said):
            await producer.send("t", **record)
        assert (await before).offset == 0
    assert [stored.value for stored in topic.records()] == [b"accepted before"]
    assert len(brokers.seen_of(ProduceRequest)) == 1


@pytest.mark.parametrize("interceptors", [(), (Spy(),)], ids=["plain", "intercepted"])
async def test_a_value_has_to_be_given_and_may_be_none(brokers: FakeCluster, interceptors: Any) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, interceptors=interceptors) as producer:
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(UsageError, match="A record for topic 't' was given no value") as caught:
                call("t", key=b"k")
            assert "tombstone" in str(caught.value.hint)
        with pytest.raises(UsageError, match="A record for topic 't' was given no value"):
            await producer.send("t", key=b"k")
        assert (await producer.send("t", None, key=b"k")).serialized_value_size == -1
        producer.send_nowait("t", None, key=b"k")
        producer.send_nowait(ProducerRecord("t", None, key=b"k"))
    assert [(record.key, record.value) for record in topic.records()] == [(b"k", None)] * 3


async def test_a_producer_record_takes_nothing_beside_it(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    record = ProducerRecord("t", b"v")
    others: list[dict[str, Any]] = [
        {"value": b"w"},
        {"value": None},
        {"key": b"k"},
        {"partition": 0},
        {"headers": []},
        {"timestamp": 1},
    ]
    async with running(brokers) as producer:
        for beside in others:
            with pytest.raises(InvalidRecordError, match="says everything itself"):
                producer.submit(record, **beside)
            with pytest.raises(InvalidRecordError, match="says everything itself"):
                await producer.send(record, **beside)
        assert (await producer.send(record)).offset == 0


async def test_a_topic_may_be_of_a_subclass_of_str(brokers: FakeCluster) -> None:
    class Topics(enum.StrEnum):
        ORDERS = "orders"

    topic = brokers.create_topic("orders")
    async with running(brokers) as producer:
        metadata = await producer.send(Topics.ORDERS, b"v")
        await producer.submit(Topics.ORDERS, b"w")
    assert type(metadata.topic) is str
    assert len(topic.records()) == 2


async def test_serializers_make_bytes_of_keys_and_values(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, key_serializer="string", value_serializer="json") as producer:
        metadata = await producer.send("t", {"a": 1}, key="ü")
        await producer.submit("t", None, key=None)
        producer.send_nowait("t", [1, 2])
        await producer.flush()
    assert [(record.key, record.value) for record in topic.records()] == [
        ("ü".encode(), b'{"a":1}'),
        (None, None),
        (None, b"[1,2]"),
    ]
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (2, 7)


async def test_a_serializer_may_add_headers(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    given = [("a", b"1")]

    def serialize(topic: str, headers: Any, value: str) -> bytes:
        headers.append(("schema", topic.encode()))
        return value.encode()

    async with running(brokers, value_serializer=serialize) as producer:
        await producer.send("t", "v", headers=given)
        await producer.submit("t", "w")
    assert [record.headers for record in topic.records()] == [
        (("a", b"1"), ("schema", b"t")),
        (("schema", b"t"),),
    ]
    assert given == [("a", b"1")], "the caller's own list stays as it is"


async def test_a_serializer_that_fails(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy = Spy()
    async with running(brokers, value_serializer=str.encode, interceptors=[spy]) as producer:
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(SerializationError, match="value of a record for topic 't'") as raised:
                call("t", 5)
            assert isinstance(raised.value.__cause__, TypeError)
        with pytest.raises(SerializationError):
            await producer.send("t", 5, partition=3)
        assert producer.buffered == (0, 0)
    assert [(metadata.partition, type(error)) for metadata, error in spy.acknowledged] == [
        (-1, SerializationError),
        (-1, SerializationError),
        (3, SerializationError),
    ]


async def test_a_serializer_that_is_awaited(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")

    async def serialize(value: str) -> bytes | None:
        await asyncio.sleep(0)
        if value == "bad":
            raise ValueError(value)
        return value.encode() if value else None

    async with running(brokers, key_serializer=serialize, value_serializer=serialize) as producer:
        await producer.send("t", "v", key="k")
        await producer.send("t", "", key="k")
        with pytest.raises(SerializationError, match="ValueError: bad"):
            await producer.send("t", "bad")
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(UsageError, match="await") as raised:
                call("t", "v")
            assert "send" in (raised.value.hint or "")
            with pytest.raises(UsageError):
                call("t", None, key="k")
            call("t", None)
        await producer.flush()
    assert [(record.key, record.value) for record in topic.records()] == [
        (b"k", b"v"),
        (b"k", None),
        (None, None),
        (None, None),
    ]


async def test_a_function_that_returns_an_awaitable_raises_in_submit_too(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    loop = asyncio.get_running_loop()

    def serialize(value: str) -> Any:
        future = loop.create_future()
        future.set_result(value.encode())
        return future

    async with running(brokers, value_serializer=serialize) as producer:
        assert (await producer.send("t", "v")).offset == 0
        with pytest.raises(UsageError, match="await"):
            producer.submit("t", "v")


async def test_a_cancelled_send_whose_serializer_is_awaited_was_never_accepted(brokers: FakeCluster) -> None:
    brokers.create_topic("t")

    async def serialize(value: str) -> bytes:
        await asyncio.sleep(1000)
        return value.encode()

    async with running(brokers, value_serializer=serialize) as producer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await producer.send("t", "v")
        assert producer.buffered == (0, 0)


def test_bad_options_raise_when_the_producer_is_made() -> None:
    bad: list[dict[str, Any]] = [
        {"value_serializer": 5},
        {"partitioner": "nonesuch"},
        {"interceptors": ["no.such.module"]},
        {"linger": 5},
        {"acks": 7},
        {"security_protocol": "SASL_SSL"},
        {"transactional_id": "t", "acks": 1},
    ]
    for options in bad:
        with pytest.raises(ConfigError):
            Producer("127.0.0.1:9", **options)
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        Producer()


async def test_timeouts_and_callbacks_that_are_none(brokers: FakeCluster) -> None:
    async def callback(metadata: Any, error: Any) -> None:
        """Nobody would await it."""

    brokers.create_topic("t")
    async with running(brokers) as producer:
        for timeout in ("1", -1, True, float("nan")):
            with pytest.raises(UsageError, match="timeout"):
                await producer.flush(timeout)  # type: ignore[arg-type]  # what users may give
            with pytest.raises(UsageError, match="timeout"):
                await producer.close(timeout)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="on_delivery"):
            producer.send_nowait("t", b"v", on_delivery=5)  # type: ignore[arg-type]
        assert (await producer.send("t", b"v")).offset == 0, "it is not closed by any of these"
    for given in (5, callback):
        with pytest.raises(AioprodError, match="on_error"):
            Producer("127.0.0.1:9", on_error=given)  # type: ignore[arg-type]


def test_one_interceptor_need_not_be_in_a_list() -> None:
    with pytest.raises(ConfigError, match="interceptor"):
        Producer("127.0.0.1:9", interceptors=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"no\.such\.module"):
        Producer("127.0.0.1:9", interceptors="no.such.module.Class")


def test_bytes_like_data_is_copied() -> None:
    data = bytearray(b"abc")
    copied = as_bytes("value", "t", data)
    data[0] = 0
    assert copied == b"abc"
    assert as_bytes("key", "t", memoryview(b"xyz")[1:]) == b"yz"
    with pytest.raises(SerializationError):
        as_bytes("key", "t", object())


class Unreadable(bytes):
    def __bytes__(self) -> bytes:
        raise RuntimeError("of the class itself")


@pytest.mark.parametrize("cause", [ValueError, RuntimeError])
def test_bytes_that_can_t_be_read(cause: type[Exception]) -> None:
    view = memoryview(b"abc")
    view.release()
    given: Any = Unreadable(b"abc") if cause is RuntimeError else view
    with pytest.raises(SerializationError, match=r"value of a record for topic 't', .*can't be read") as raised:
        as_bytes("value", "t", given)
    assert type(raised.value.__cause__) is cause
    with pytest.raises(SerializationError, match=r"value of header 'a', .*can't be read") as raised:
        encode_headers([("a", given)])
    assert type(raised.value.__cause__) is cause


@pytest.mark.parametrize("call", ["send", "intercepted", "send_many", "each", "send_arrow"])
async def test_a_timestamp_that_is_in_seconds_is_said_once(
    brokers: FakeCluster, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored = brokers.create_topic("t")
    seconds = 1_795_542_222
    async with running(brokers, interceptors=[Spy()] if call == "intercepted" else []) as producer:
        await producer.send("t", b"v", timestamp=10**11)
        await producer.send("t", b"v", timestamp=0)
        await producer.send("t", b"v", timestamp=datetime.datetime(1971, 1, 1, tzinfo=datetime.UTC))
        assert "1970" not in caplog.text
        for _ in range(2):
            if call == "send_many":
                await producer.send_many("t", [b"v"], timestamps=seconds)
            elif call == "each":
                await producer.send_many("t", [b"v"], timestamps=[seconds])
            elif call == "send_arrow":
                await producer.send_arrow(pa.record_batch({"value": [b"v"], "timestamp": [seconds]}), topic="t")
            else:
                await producer.send("t", b"v", timestamp=seconds)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line[: line.index(":")] for line in said] == [
        "The timestamp 1795542222 of a record for topic 't' is in milliseconds, and so on 1970-01-21"
    ]
    assert [record.timestamp for record in stored.records()][3:] == [seconds] * 2


def test_partitions_and_timestamps() -> None:
    assert partition_index("t", None) == -1
    assert partition_index("t", 7) == 7
    assert timestamp_ms("t", 0) == 0
    assert timestamp_ms("t", 2**63 - 1) == 2**63 - 1
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert timestamp_ms("t", datetime.datetime(1970, 1, 1, 2, 0, 0, 1500, tzinfo=zone)) == 2
