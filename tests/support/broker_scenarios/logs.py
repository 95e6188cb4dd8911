"""Invalid batches, offsets by time, and topics that are created, deleted and re-created."""

from __future__ import annotations

import asyncio

from aioprod.errors import ErrorCode
from aioprod.records import parse_batches
from aioprod.records.layout import ATTRIBUTES, CRC, MAGIC, RECORD_COUNT
from aioprod.testing.fake.state.log import EARLIEST, LATEST
from aioprod.wire import crc
from tests.support.broker_scenarios.scenario import scenario, scenario_of_version_2
from tests.support.lab import PATIENCE_S, Lab, Topic, batch

NONE = ErrorCode.NONE


@scenario
async def damaged(lab: Lab) -> None:
    """A batch whose checksum is wrong."""
    topic = await lab.topic()
    data = bytearray(batch())
    data[-1] ^= 1
    assert await lab.send(topic, bytes(data)) == (ErrorCode.CORRUPT_MESSAGE, -1)


@scenario
async def malformed(lab: Lab) -> None:
    """Anything but exactly one whole batch of version 2."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    too_many, old_format = bytearray(batch(count=2)), bytearray(batch())
    too_many[RECORD_COUNT + 3], old_format[MAGIC] = 1, 1
    for data in (
        b"",
        batch()[:30],
        batch() + batch(),
        with_checksum(too_many),
        bytes(old_format),
        batch(producer, -1),
    ):
        assert await lab.send(topic, data) == (ErrorCode.INVALID_RECORD, -1)
    assert (await lab.read(topic)).end == 0


def with_checksum(data: bytearray) -> bytes:
    return bytes(data[:CRC]) + crc.function()(data[ATTRIBUTES:]).to_bytes(4, "big") + bytes(data[ATTRIBUTES:])


@scenario
async def acknowledgements(lab: Lab) -> None:
    """The three values of `acks`, and invalid ones."""
    topic = await lab.topic()
    assert (await lab.produce(topic, batch(), acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert [(await lab.produce(topic, batch(), acks=acks)).base_offset for acks in (1, -1)] == [0, 1]
    assert (await lab.produce(topic, batch(), partition=7)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@scenario
async def time_of_a_duplicate(lab: Lab) -> None:
    """A duplicate is answered as if the topic had LogAppendTime."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    data = batch(producer, 0)
    (sent,) = parse_batches(data)
    rows = [await lab.produce(topic, data) for _ in range(2)]
    assert [row.log_append_time_ms for row in rows] == [-1, sent.max_timestamp]
    assert [row.log_start_offset for row in rows] == [0, 0]


@scenario
async def leader_epochs(lab: Lab) -> None:
    """Requests with a newer leader epoch than the broker's fail."""
    topic = await lab.topic()
    await lab.send(topic, batch(count=3))
    assert await lab.offset_at(topic, LATEST, leader_epoch=0) == (ErrorCode.NONE, 3)
    assert (await lab.offset_at(topic, LATEST, leader_epoch=9))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


@scenario
async def offsets_by_time(lab: Lab) -> None:
    """The start, the end, and the offset of a timestamp."""
    topic = await lab.topic()
    await lab.send(topic, batch(count=3))
    (log,) = parse_batches(batch())
    later = log.max_timestamp + 3_600_000
    timestamps = (EARLIEST, LATEST, 0, later)
    assert [(await lab.offset_at(topic, timestamp))[1] for timestamp in timestamps] == [0, 3, 0, -1]
    assert (await lab.offset_at(Topic(lab.new_name("missing"), topic.id), LATEST))[0] == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


@scenario
async def created_by_metadata(lab: Lab) -> None:
    """A topic that Metadata creates is in the second response."""
    name = lab.new_name("auto")
    assert (await lab.describe(name, may_create=True)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with asyncio.timeout(PATIENCE_S):
        while (await lab.describe(name, may_create=True)).error_code:
            await asyncio.sleep(0.01)
    assert (await lab.describe("a b", may_create=True)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@scenario
async def topics_that_are_not_created(lab: Lab) -> None:
    """Invalid names, numbers and settings."""
    topic = await lab.topic()
    rejected = [
        (await lab.create(topic.name), ErrorCode.TOPIC_ALREADY_EXISTS),
        (await lab.create("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (await lab.create(lab.new_name("none"), partitions=0), ErrorCode.INVALID_PARTITIONS),
        (await lab.create(lab.new_name("many"), replicas=5), ErrorCode.INVALID_REPLICATION_FACTOR),
    ]
    assert [created.error_code for created, _ in rejected] == [expected for _, expected in rejected]


@scenario
async def too_large(lab: Lab) -> None:
    """The topic's `max.message.bytes`; the batch's sequence does not matter."""
    topic, producer = await lab.topic(max_message_bytes="500"), (await lab.init()).producer
    assert await lab.send(topic, batch(producer, 0, 100)) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert await lab.send(topic, batch(producer, 0, 2)) == (NONE, 0)


@scenario
async def unknown(lab: Lab) -> None:
    """An unknown topic, by name."""
    topic = await lab.topic()
    missing = Topic(lab.new_name("missing"), topic.id)
    assert await lab.send(missing, batch()) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert (await lab.describe(missing.name)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@scenario
async def recreated(lab: Lab) -> None:
    """A re-created topic is empty, and knows no producers."""
    old, producer = await lab.topic(), (await lab.init()).producer
    assert await lab.send(old, batch(producer, 0, 3)) == (NONE, 0)
    await lab.delete(old)
    new = await lab.topic(old.name)
    assert new.id != old.id
    assert await lab.send(new, batch(producer, 3)) == (NONE, 0)
    assert (await lab.describe(None, old.id)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@scenario_of_version_2
async def recreated_by_id(lab: Lab) -> None:
    """A write to the old topic's id does not get into the new one (Produce 13)."""
    old = await lab.topic()
    assert await lab.send(old, batch(), version=13) == (NONE, 0)
    await lab.delete(old)
    new = await lab.topic(old.name)
    assert await lab.send(old, batch(), version=13) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert await lab.send(new, batch(), version=13) == (NONE, 0)
