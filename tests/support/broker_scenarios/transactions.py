"""Transactions: their begin, their partitions, their end."""

from __future__ import annotations

from aioprod.errors import ErrorCode
from tests.support.broker_scenarios.scenario import scenario
from tests.support.lab import Lab, batch

NONE, OUT_OF_ORDER = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
INVALID_TXN_STATE, ABORTABLE = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE


@scenario
async def commit(lab: Lab) -> None:
    """Records are visible once the transaction is committed; the marker has an offset."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    assert await lab.write(name, producer, topic, 0, 2) == (NONE, 0)
    assert await lab.write(name, producer, topic, 2, added=True) == (NONE, 2)
    open_log = await lab.read(topic)
    assert (open_log.end, open_log.stable_end, open_log.values) == (3, 0, {})
    assert len((await lab.read(topic, committed=False)).values) == 3
    assert (await lab.end(name, producer, commits=True)).error == NONE
    log = await lab.completed_log(topic)
    assert (log.end, log.aborted, log.values) == (4, [], {0: b"0", 1: b"1", 2: b"2"})


@scenario
async def abort(lab: Lab) -> None:
    """Records stay in the log, and consumers get the aborted transaction to skip them."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    assert await lab.send(topic, batch()) == (NONE, 0)
    assert await lab.write(name, producer, topic, 0, 2) == (NONE, 1)
    assert (await lab.end(name, producer, commits=False)).error == NONE
    log = await lab.completed_log(topic)
    assert (log.end, log.aborted, list(log.values)) == (4, [(producer[0], 1)], [0, 1, 2])
    assert (await lab.read(topic, committed=False)).aborted == []


@scenario
async def several_in_a_row(lab: Lab) -> None:
    """One after the other, each with the epoch from the end of the one before; a new epoch begins at sequence 0."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    sequence = 0
    for turn in range(4):
        stored = await lab.write(name, producer, topic, sequence)
        assert stored == (NONE, 2 * turn)
        answer = await lab.end(name, producer, commits=turn % 2 == 0)
        assert answer.error == NONE
        if lab.level == 2:
            assert answer.producer == (producer[0], producer[1] + 1)
            producer = answer.producer
        else:
            sequence += 1
        await lab.completed_log(topic)
        # The marker is written, but the coordinator may not have completed the transaction yet.
        while lab.level == 1 and (await lab.add(name, producer, topic.name)) == [ErrorCode.CONCURRENT_TRANSACTIONS]:
            pass
        while lab.level == 2 and (await lab.end(name, producer, commits=True)).error != INVALID_TXN_STATE:
            pass
    log = await lab.read(topic)
    assert [first for _, first in log.aborted] == [2, 6]


@scenario
async def interleaved(lab: Lab) -> None:
    """Two transactions in one partition: consumers see nothing after the start of the first open one."""
    topic = await lab.topic()
    (one, first), (other, second) = await lab.new_producer(), await lab.new_producer()
    assert await lab.write(one, first, topic, 0) == (NONE, 0)
    assert await lab.write(other, second, topic, 0) == (NONE, 1)
    assert (await lab.end(other, second, commits=True)).error == NONE
    while (log := await lab.read(topic)).end < 3:
        pass
    assert (log.stable_end, log.values) == (0, {})
    assert (await lab.end(one, first, commits=False)).error == NONE
    log = await lab.completed_log(topic)
    assert (log.end, log.aborted, list(log.values)) == (4, [(first[0], 0)], [0, 1])


@scenario
async def end_of_nothing(lab: Lab) -> None:
    """An empty transaction can't be committed; since version 2 it can be aborted."""
    name, producer = await lab.new_producer()
    assert (await lab.end(name, producer, commits=True)).error == INVALID_TXN_STATE
    aborted = await lab.end(name, producer, commits=False)
    if lab.level == 1:
        assert aborted.error == INVALID_TXN_STATE
    else:
        assert aborted == (NONE, producer[0], producer[1] + 1)


@scenario
async def marker_without_data(lab: Lab) -> None:
    """A partition that was added but not written to gets a marker, too."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    assert await lab.add(name, producer, topic.name) == [NONE]
    assert (await lab.end(name, producer, commits=False)).error == NONE
    while (log := await lab.read(topic)).end < 1:
        pass
    assert (log.end, log.stable_end, log.aborted) == (1, 1, [])


@scenario
async def repeated_end(lab: Lab) -> None:
    """An EndTxn may be retried after a lost response, but not with the opposite outcome."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    assert (await lab.write(name, producer, topic, 0)).error == NONE
    answer = await lab.end(name, producer, commits=True)
    while (again := await lab.end(name, producer, commits=True)).error == ErrorCode.CONCURRENT_TRANSACTIONS:
        pass
    assert again == answer
    assert (await lab.end(name, producer, commits=False)).error == INVALID_TXN_STATE
    assert (await lab.end(name, producer, commits=True)) == answer


@scenario
async def write_that_was_not_added(lab: Lab) -> None:
    """Before version 12 the partition must have been added; the error depends on the version."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    data = batch(producer, 0, transactional=True)
    assert await lab.send(topic, data, transactional_id=name, version=11) == (ABORTABLE, -1)
    assert await lab.send(topic, data, transactional_id=name, version=10) == (INVALID_TXN_STATE, -1)
    assert (await lab.read(topic, committed=False)).end == 0
    assert await lab.add(name, producer, topic.name) == [NONE]
    assert await lab.send(topic, data, transactional_id=name, version=11) == (NONE, 0)
    assert (await lab.end(name, producer, commits=True)).error == NONE


@scenario
async def late_write(lab: Lab) -> None:
    """A write with the epoch of an ended transaction."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    assert (await lab.write(name, producer, topic, 0)).error == NONE
    assert (await lab.end(name, producer, commits=True)).error == NONE
    await lab.completed_log(topic)
    while (await lab.end(name, producer, commits=True)).error != NONE:
        pass
    late = batch(producer, 1, transactional=True)
    expected = ABORTABLE if lab.level == 1 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert await lab.send(topic, late, transactional_id=name) == (expected, -1)


@scenario
async def first_sequence_of_a_transaction(lab: Lab) -> None:
    """Not 0: version 2 rejects it for an unknown producer, and both versions for a known one."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    stored = await lab.write(name, producer, topic, 10)
    assert stored == ((NONE, 0) if lab.level == 1 else (OUT_OF_ORDER, -1))
    known = await lab.topic()
    assert await lab.write(name, producer, known, 0) == (NONE, 0)
    assert await lab.write(name, producer, known, 10, added=True) == (OUT_OF_ORDER, -1)


@scenario
async def plain_batch_in_a_transaction(lab: Lab) -> None:
    """While its transaction is open a producer can't write plain batches."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    assert (await lab.write(name, producer, topic, 0)).error == NONE
    assert await lab.send(topic, batch(producer, 1)) == (INVALID_TXN_STATE, -1)


@scenario
async def without_transactional_id(lab: Lab) -> None:
    """A transactional batch in a request without the transactional id."""
    topic, (_, producer) = await lab.topic(), await lab.new_producer()
    stored = await lab.send(topic, batch(producer, 0, transactional=True))
    assert stored == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)


@scenario
async def unknown_topics(lab: Lab) -> None:
    """All partitions are added or none."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    missing = lab.new_name("missing")
    errors = await lab.add(name, producer, topic.name, missing)
    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (await lab.end(name, producer, commits=True)).error == INVALID_TXN_STATE


@scenario
async def topic_deleted_meanwhile(lab: Lab) -> None:
    """A deleted topic does not delay the end."""
    topic, other = await lab.topic(), await lab.topic()
    name, producer = await lab.new_producer()
    assert (await lab.write(name, producer, topic, 0)).error == NONE
    assert (await lab.write(name, producer, other, 0)).error == NONE
    await lab.delete(topic)
    assert (await lab.end(name, producer, commits=True)).error == NONE
    assert list((await lab.completed_log(other)).values) == [0]
    assert (await lab.init_at_last(name)).error == NONE


@scenario
async def described(lab: Lab) -> None:
    """The state of a transactional id, by Kafka's names."""
    topic, (name, producer) = await lab.topic(), await lab.new_producer()
    before = await lab.describe_transaction(name)
    assert (before.error_code, before.transaction_state, before.topics) == (0, "Empty", ())
    assert (before.producer_id, before.producer_epoch) == producer
    assert (await lab.write(name, producer, topic, 0)).error == NONE
    during = await lab.describe_transaction(name)
    assert (during.transaction_state, [one.topic for one in during.topics]) == ("Ongoing", [topic.name])
    ended = await lab.end(name, producer, commits=True)
    await lab.completed_log(topic)
    while (after := await lab.describe_transaction(name)).transaction_state == "PrepareCommit":
        pass
    assert (after.transaction_state, after.topics) == ("CompleteCommit", ())
    assert after.producer_epoch == (ended.epoch if lab.level == 2 else producer[1])
    missing = await lab.describe_transaction(lab.new_name("missing"))
    assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@scenario
async def ends_while_markers_are_written(lab: Lab) -> None:
    """Until a transaction is complete, errors for its opposite end and for the next transaction's end are retriable."""
    topic = await lab.topic()
    for _ in range(5):
        name, producer = await lab.new_producer()
        assert (await lab.write(name, producer, topic, 0)).error == NONE
        ended = await lab.end(name, producer, commits=True)
        opposite = await lab.end(name, producer, commits=False)
        assert opposite.error in (ErrorCode.CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE)
        following = ended.producer if lab.level == 2 else producer
        while (answer := await lab.end(name, following, commits=False)).error == ErrorCode.CONCURRENT_TRANSACTIONS:
            pass
        assert answer.error == (NONE if lab.level == 2 else INVALID_TXN_STATE)
