"""Batches that are refused for what they are, and topics that are made anew."""

from __future__ import annotations

from aioprod.errors import ErrorCode
from tests.support.broker_scenarios.scenario import scenario, scenario_of_version_2
from tests.support.lab import Lab, Topic, batch

NONE = ErrorCode.NONE


@scenario
async def damaged(lab: Lab) -> None:
    """A batch whose checksum is wrong."""
    topic = await lab.topic()
    data = bytearray(batch())
    data[-1] ^= 1
    assert await lab.send(topic, bytes(data)) == (ErrorCode.CORRUPT_MESSAGE, -1)


@scenario
async def too_large(lab: Lab) -> None:
    """The topic's `max.message.bytes`, without a word about its producer's sequence."""
    topic, producer = await lab.topic(max_message_bytes=500), (await lab.init()).producer
    assert await lab.send(topic, batch(producer, 0, 100)) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert await lab.send(topic, batch(producer, 0, 2)) == (NONE, 0)


@scenario
async def unknown(lab: Lab) -> None:
    """A topic that there is not, by name."""
    topic = await lab.topic()
    missing = Topic(lab.new_name("missing"), topic.id)
    assert await lab.send(missing, batch()) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert (await lab.describe(missing.name)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@scenario
async def made_anew(lab: Lab) -> None:
    """A topic of the same name is empty, and knows no producers."""
    old, producer = await lab.topic(), (await lab.init()).producer
    assert await lab.send(old, batch(producer, 0, 3)) == (NONE, 0)
    await lab.delete(old)
    new = await lab.topic(old.name)
    assert new.id != old.id
    assert await lab.send(new, batch(producer, 3)) == (NONE, 0)
    assert (await lab.describe(None, old.id)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@scenario_of_version_2
async def made_anew_by_id(lab: Lab) -> None:
    """Who names the old topic's id does not write into the new one (Produce 13)."""
    old = await lab.topic()
    assert await lab.send(old, batch(), version=13) == (NONE, 0)
    await lab.delete(old)
    new = await lab.topic(old.name)
    assert await lab.send(old, batch(), version=13) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert await lab.send(new, batch(), version=13) == (NONE, 0)
