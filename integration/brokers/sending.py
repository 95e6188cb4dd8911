"""Checks of sending: five calls, five codecs, headers, nulls, timestamps, acks, and large records."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from aioprod import Producer, RecordMetadata, TopicPartition
from aioprod.admin import Admin
from aioprod.errors import AioprodError
from integration.brokers.broker import Broker
from integration.brokers.comparing import Record, check_stored, until
from integration.brokers.registry import Check

__all__ = ["CHECKS", "Given", "given", "new_topic", "sent"]

PARTITIONS: Final = 3
RECORDS_PER_CALL: Final = 300
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LARGE_BYTES: Final = 900_000

Headers = tuple[tuple[str, bytes | None], ...]


class Given(NamedTuple):
    """A record as it is given to the producer; `timestamp` in ms since the epoch."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a call beside topic and value."""
        return {
            "key": self.key,
            "partition": self.partition,
            "headers": self.headers,
            "timestamp": self.timestamp,
        }

    def at(self, offset: int) -> Record:
        """What has to be stored."""
        return Record(self.partition, offset, self.key, self.value, self.headers, self.timestamp)


def given(count: int, partitions: int = PARTITIONS) -> list[Given]:
    """Records with values that compress, and a timestamp of the last hour each, not in order."""
    now = int(time.time() * 1000)
    return [
        Given(
            partition=number % partitions,
            key=b"key %d" % (number % 50),
            value=b"record %d %s" % (number, b"of a kind " * (number % 20)),
            headers=(("number", b"%d" % number),) if number % 3 == 0 else (),
            timestamp=now - (number * 7919) % 3_600_000,
        )
        for number in range(count)
    ]


async def new_topic(broker: Broker, partitions: int = PARTITIONS, **config: object) -> str:
    """A topic of its own for a check."""
    name = broker.fresh("topic")
    async with Admin(broker.bootstrap_servers) as admin:
        await admin.create_topic(name, partitions=partitions, replication_factor=1, config=config, timeout=120)
    return name


# --- the five calls: each gives what has to be stored, with the offsets that it was told


async def sent(producer: Producer, topic: str, records: Sequence[Given]) -> list[Record]:
    """By `send()`, many at once."""
    told = await asyncio.gather(*(producer.send(topic, one.value, **one.options) for one in records))
    return _placed(records, told)


async def _submitted(producer: Producer, topic: str, records: Sequence[Given]) -> list[Record]:
    futures = [producer.submit(topic, one.value, **one.options) for one in records]
    await producer.flush()
    return _placed(records, [await future for future in futures])


async def _sent_nowait(producer: Producer, topic: str, records: Sequence[Given]) -> list[Record]:
    told: dict[int, RecordMetadata] = {}

    def heard(index: int, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        if metadata is not None:
            told[index] = metadata

    for index, one in enumerate(records):
        producer.send_nowait(topic, one.value, **one.options, on_delivery=partial(heard, index))
    await producer.flush()
    return _placed(records, [told[index] for index in range(len(records))])


async def _sent_many(producer: Producer, topic: str, records: Sequence[Given]) -> list[Record]:
    placed = []
    for partition in sorted({one.partition for one in records}):
        own = [one for one in records if one.partition == partition]
        result = await producer.send_many(
            topic,
            [one.value for one in own],
            keys=[one.key for one in own],
            partition=partition,
            headers=[one.headers for one in own],
            timestamps=[one.timestamp for one in own],
        )
        result_offsets = [offset for span in result.offsets[TopicPartition(topic, partition)] for offset in span]
        placed += [one.at(offset) for one, offset in zip(own, result_offsets, strict=True)]
    return placed


async def _sent_arrow(producer: Producer, topic: str, records: Sequence[Given]) -> list[Record]:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    batch = pa.record_batch(
        {
            "key": pa.array([one.key for one in records], pa.binary()),
            "value": pa.array([one.value for one in records], pa.binary()),
            "partition": pa.array([one.partition for one in records], pa.int32()),
            "timestamp": pa.array([one.timestamp for one in records], pa.int64()),
            "headers": pa.array(
                [[{"key": name, "value": value} for name, value in one.headers] for one in records], pa.list_(header)
            ),
        }
    )
    result = await producer.send_arrow(batch, topic=topic)
    offsets = {tp.partition: iter([at for span in spans for at in span]) for tp, spans in result.offsets.items()}
    return [one.at(next(offsets[one.partition])) for one in records]


def _placed(records: Sequence[Given], told: Sequence[RecordMetadata]) -> list[Record]:
    """What was told must be of the record that was given; raises AssertionError."""
    for one, metadata in zip(records, told, strict=True):
        assert (metadata.partition, metadata.timestamp) == (one.partition, one.timestamp), (
            f"{one} is told as {metadata}"
        )
    return [one.at(metadata.offset) for one, metadata in zip(records, told, strict=True)]


CALLS: Final[Mapping[str, Callable[[Producer, str, Sequence[Given]], Awaitable[list[Record]]]]] = {
    "send": sent,
    "submit": _submitted,
    "send_nowait": _sent_nowait,
    "send_many": _sent_many,
    "send_arrow": _sent_arrow,
}


# --- the checks


async def check_codec(codec: str, broker: Broker) -> None:
    """Each call with one codec."""
    topic = await new_topic(broker)
    stored: list[Record] = []
    settings = {"compression.type": codec, "request.timeout.ms": 60_000}
    async with Producer(broker.bootstrap_servers, config=settings) as producer:
        for call in CALLS.values():
            stored += await call(producer, topic, given(RECORDS_PER_CALL))
    await check_stored(broker, topic, stored)


async def check_odd_records(broker: Broker) -> None:
    """Headers that are repeated, null, empty or not ASCII; keys and values that are null or empty."""
    headers: Sequence[Headers] = (
        (),
        (("trace", b"1"), ("trace", b"2"), ("trace", b"1")),
        (("nothing", None), ("empty", b"")),
        (("Größe 🎈", "Zürich".encode()), ("", b"a name of no letters")),
    )
    sides = (None, b"", b"some", bytes(range(256)))
    now = int(time.time() * 1000)
    records = [
        Given(0, key, value, some, now - number)
        for number, (key, value, some) in enumerate((k, v, h) for k in sides for v in sides for h in headers)
    ]
    topic = await new_topic(broker)
    stored: list[Record] = []
    async with Producer(broker.bootstrap_servers, request_timeout_ms=60_000) as producer:
        for call in CALLS.values():
            stored += await call(producer, topic, records)
    await check_stored(broker, topic, stored)


async def check_acks(broker: Broker) -> None:
    """Each `acks` without idempotence, and all with it."""
    for acks, idempotence in (("0", False), ("1", False), ("all", False), ("all", True)):
        topic = await new_topic(broker)
        records = given(RECORDS_PER_CALL)
        settings = {"acks": acks, "enable.idempotence": idempotence, "request.timeout.ms": 60_000}
        async with Producer(broker.bootstrap_servers, config=settings) as producer:
            futures = [producer.submit(topic, one.value, **one.options) for one in records]
            await producer.flush()
            told = [await future for future in futures]
        stored = [one.at(number // PARTITIONS) for number, one in enumerate(records)]
        if acks == "0":
            assert {metadata.offset for metadata in told} == {-1}
            await _until_stored(broker, topic, len(records))
        else:
            assert _placed(records, told) == stored
        await check_stored(broker, topic, stored)


async def _until_stored(broker: Broker, topic: str, count: int) -> None:
    """Nobody acknowledges what is sent with acks=0."""
    async with Admin(broker.bootstrap_servers) as admin:

        async def found() -> int:
            return sum((await admin.offsets(topic, "latest")).values())

        await until(f"records stored in {topic}", found, count)


async def check_large(broker: Broker) -> None:
    """Records of 900 kB that nothing makes smaller, and some that are compressed."""
    noise = random.Random(1).randbytes(LARGE_BYTES)
    topic = await new_topic(broker)
    stored: list[Record] = []
    now = int(time.time() * 1000)
    for codec in ("none", "lz4"):
        async with Producer(broker.bootstrap_servers, compression_type=codec, request_timeout_ms=60_000) as producer:
            records = [Given(index % 2, b"large", noise[index:], (), now) for index in range(4)]
            stored += await sent(producer, topic, records)
    await check_stored(broker, topic, stored)


CHECKS: Final = (
    *(Check(f"five calls, {codec}", partial(check_codec, codec)) for codec in CODECS),
    Check("headers, nulls, timestamps", check_odd_records),
    Check("acks 0, 1, all, idempotence", check_acks),
    Check("records of 900 kB", check_large),
)
