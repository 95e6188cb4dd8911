"""Which batches of an idempotent producer a leader appends."""

from __future__ import annotations

from aioprod.errors import ErrorCode
from tests.support.broker_scenarios.scenario import scenario
from tests.support.lab import Lab, Stored, batch

LAST = (1 << 31) - 1
NONE, OUT_OF_ORDER = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@scenario
async def in_order(lab: Lab) -> None:
    """Consecutive batches."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    assert await lab.send(topic, batch(producer, 0, 3)) == (NONE, 0)
    assert await lab.send(topic, batch(producer, 3, 2)) == (NONE, 3)
    assert (await lab.read(topic)).end == 5


@scenario
async def duplicates(lab: Lab) -> None:
    """Duplicates of the last five batches are recognized; older ones are out of order."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    for sequence in range(0, 14, 2):
        assert await lab.send(topic, batch(producer, sequence, 2)) == (NONE, sequence)
    for sequence in (4, 6, 8, 10, 12):
        assert await lab.send(topic, batch(producer, sequence, 2)) == (NONE, sequence)
    for sequence in (0, 2):
        assert await lab.send(topic, batch(producer, sequence, 2)) == (OUT_OF_ORDER, -1)
    assert (await lab.read(topic)).end == 14


@scenario
async def overlaps(lab: Lab) -> None:
    """A batch with other bounds than the stored one is not a duplicate."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    assert await lab.send(topic, batch(producer, 0, 4)) == (NONE, 0)
    for sequence, count in ((0, 2), (2, 2), (0, 8), (3, 4)):
        assert await lab.send(topic, batch(producer, sequence, count)) == (OUT_OF_ORDER, -1)
    assert (await lab.read(topic)).end == 4


@scenario
async def gaps(lab: Lab) -> None:
    """A batch with a gap before it is rejected, and the next one still appended."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    assert await lab.send(topic, batch(producer, 0)) == (NONE, 0)
    assert await lab.send(topic, batch(producer, 2)) == (OUT_OF_ORDER, -1)
    assert await lab.send(topic, batch(producer, 1)) == (NONE, 1)
    assert await lab.send(topic, batch(producer, 2)) == (NONE, 2)


@scenario
async def unknown_producer(lab: Lab) -> None:
    """A leader accepts any sequence number of an unknown producer."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    assert await lab.send(topic, batch(producer, 10)) == (NONE, 0)
    assert await lab.send(topic, batch(producer, 12)) == (OUT_OF_ORDER, -1)
    assert await lab.send(topic, batch(producer, 11)) == (NONE, 1)


@scenario
async def wrap(lab: Lab) -> None:
    """After 2^31 - 1 comes 0, between batches and within one."""
    topic, producer = await lab.topic(), (await lab.init()).producer
    assert await lab.send(topic, batch(producer, LAST - 1, 2)) == (NONE, 0)
    assert await lab.send(topic, batch(producer, 0, 3)) == (NONE, 2)
    assert await lab.send(topic, batch(producer, LAST - 1, 2)) == (NONE, 0)
    other = (await lab.init()).producer
    assert await lab.send(topic, batch(other, LAST - 1, 4)) == (NONE, 5)
    assert await lab.send(topic, batch(other, 1)) == (OUT_OF_ORDER, -1)
    assert await lab.send(topic, batch(other, 2)) == (NONE, 9)
    assert await lab.send(topic, batch(other, LAST - 1, 4)) == (NONE, 5)


@scenario
async def epochs_of_one_id(lab: Lab) -> None:
    """A newer epoch starts at 0 and fences the older one, whose batches are no duplicates any more."""
    topic = await lab.topic()
    producer_id, epoch = (await lab.init()).producer
    assert await lab.send(topic, batch((producer_id, epoch), 0)) == (NONE, 0)
    assert await lab.send(topic, batch((producer_id, epoch + 1), 1)) == (OUT_OF_ORDER, -1)
    assert await lab.send(topic, batch((producer_id, epoch + 1), 0)) == (NONE, 1)
    for sequence in (0, 1):
        assert await lab.send(topic, batch((producer_id, epoch), sequence)) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert await lab.send(topic, batch((producer_id, epoch + 7), 0)) == (NONE, 2)
    assert (await lab.read(topic)).end == 3


@scenario
async def partitions_know_nothing_of_each_other(lab: Lab) -> None:
    """Each partition has its own sequence numbers."""
    first, second, producer = await lab.topic(), await lab.topic(), (await lab.init()).producer
    assert await lab.send(first, batch(producer, 0)) == (NONE, 0)
    assert await lab.send(second, batch(producer, 0)) == (NONE, 0)
    assert await lab.send(first, batch(producer, 1)) == (NONE, 1)


@scenario
async def without_producer_id(lab: Lab) -> None:
    """Plain batches are always appended."""
    topic = await lab.topic()
    assert [await lab.send(topic, batch()) for _ in range(3)] == [Stored(NONE, offset) for offset in range(3)]
