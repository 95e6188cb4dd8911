"""The producer of a transactional id: fencing, epochs, timeouts."""

from __future__ import annotations

import asyncio

from aioprod.errors import ErrorCode
from tests.support.broker_scenarios.scenario import scenario
from tests.support.lab import PATIENCE_S, Lab, batch

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
INVALID_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


@scenario
async def each_start_raises_the_epoch(lab: Lab) -> None:
    """The same producer id, the next epoch."""
    name, (producer_id, epoch) = await lab.new_producer()
    assert await lab.init(name) == (NONE, producer_id, epoch + 1)
    assert epoch == 0


@scenario
async def start_over_an_open_transaction(lab: Lab) -> None:
    """The open transaction is aborted first, under its own epoch."""
    topic, (name, (producer_id, epoch)) = await lab.topic(), await lab.new_producer()
    assert (await lab.write(name, (producer_id, epoch), topic, 0)).error == NONE
    assert (await lab.init(name)).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await lab.init_at_last(name) == (NONE, producer_id, epoch + 2)
    log = await lab.completed_log(topic)
    assert (log.end, log.aborted) == (2, [(producer_id, 0)])


@scenario
async def zombie(lab: Lab) -> None:
    """The errors of a producer that was fenced by another one with its transactional id."""
    written, untouched, (name, old) = await lab.topic(), await lab.topic(), await lab.new_producer()
    group = lab.new_name("group")
    assert (await lab.write(name, old, written, 0)).error == NONE
    new = (await lab.init_at_last(name)).producer
    for topic in (written, untouched):
        for version in (11, lab.produce_version):
            late = batch(old, 1, transactional=True)
            assert await lab.send(topic, late, transactional_id=name, version=version) == (INVALID_EPOCH, -1)
    assert await lab.add(name, old, written.name) == [FENCED]
    assert await lab.add_offsets(name, old, group) == FENCED
    assert await lab.commit_in(name, old, group, written, 1) == INVALID_EPOCH
    assert (await lab.end(name, old, commits=True)).error == FENCED
    assert (await lab.write(name, new, untouched, 0)).error == NONE
    assert await lab.send(untouched, batch(old, 0, transactional=True), transactional_id=name) == (INVALID_EPOCH, -1)


@scenario
async def owner_raises_its_epoch(lab: Lab) -> None:
    """A producer that sends its id and epoch gets the next epoch (KIP-360), and may retry after a lost response."""
    name, (producer_id, epoch) = await lab.new_producer()
    raised = await lab.init(name, (producer_id, epoch))
    assert raised == (NONE, producer_id, epoch + 1)
    assert await lab.init(name, (producer_id, epoch)) == raised
    assert await lab.init(name, raised.producer) == (NONE, producer_id, epoch + 2)
    assert (await lab.init(name, (producer_id, epoch))).error == FENCED
    assert (await lab.init(name, (producer_id + 1, epoch))).error == FENCED
    assert (await lab.init(name)).epoch == epoch + 3
    assert (await lab.init(name, (producer_id, epoch + 2))).error == FENCED


@scenario
async def another_producer(lab: Lab) -> None:
    """Another producer id than the transactional id's, and an unknown transactional id."""
    topic, (name, (producer_id, epoch)) = await lab.topic(), await lab.new_producer()
    stranger, mapping = (producer_id + 1000, epoch), ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await lab.add(name, stranger, topic.name) == [mapping]
    assert (await lab.end(name, stranger, commits=True)).error == mapping
    missing = lab.new_name("missing")
    assert await lab.add(missing, (producer_id, epoch), topic.name) == [mapping]
    assert (await lab.end(missing, (producer_id, epoch), commits=True)).error == mapping
    late = batch(stranger, 0, transactional=True)
    assert await lab.send(topic, late, transactional_id=name) == (mapping, -1)


@scenario
async def time_out(lab: Lab) -> None:
    """A transaction that times out is aborted, and its producer gets an error at its next request."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer(timeout_ms=1_000)
    group = lab.new_name("group")
    assert (await lab.write(name, producer, topic, 0)).error == NONE
    async with asyncio.timeout(PATIENCE_S):
        while (log := await lab.read(topic)).stable_end < 2:
            await asyncio.sleep(0.01)
    assert (log.end, log.aborted) == (2, [(producer[0], 0)])
    late = batch(producer, 1, transactional=True)
    while (stored := await lab.send(topic, late, transactional_id=name)).error == ErrorCode.CONCURRENT_TRANSACTIONS:
        pass
    assert stored == (INVALID_EPOCH, -1)
    assert await lab.commit_in(name, producer, group, topic, 1) == INVALID_EPOCH
    ended = await lab.end(name, producer, commits=True)
    assert ended.error == (FENCED if lab.level == 1 else ErrorCode.INVALID_TXN_STATE)
    assert await lab.init_at_last(name) == (NONE, producer[0], producer[1] + 2)


@scenario
async def time_outs_that_are_too_long(lab: Lab) -> None:
    """The broker's `transaction.max.timeout.ms` is 15 minutes."""
    name = lab.new_name("transactional-id")
    assert (await lab.init(name, timeout_ms=900_001)).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (await lab.init(name, timeout_ms=900_000)).error == NONE


@scenario
async def empty_transactional_id(lab: Lab) -> None:
    """An empty transactional id is invalid."""
    assert (await lab.init("")).error == ErrorCode.INVALID_REQUEST
