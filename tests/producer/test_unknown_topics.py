"""Records for topics that are not known yet: parked, released in order, or refused with the reason."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aioprod import Producer
from aioprod.cluster import Cluster
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    ErrorCode,
    InvalidRecordError,
    InvalidTopicError,
    MetadataTimeoutError,
    NotSentError,
    UnknownTopicError,
)
from aioprod.messages import MetadataRequest
from aioprod.testing import FakeCluster
from tests.support.producers import ErrorLog, Outcomes, ShiftedClock, Spy, pass_time, produced, running, turns, until


async def test_records_of_an_unknown_topic_are_parked_and_released_in_order(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        held = brokers.fault(MetadataRequest, hold=True)
        outcomes = Outcomes()
        sending = asyncio.create_task(producer.send("t", b"0"))
        await held.reached.wait()
        futures = [producer.submit("t", b"%d" % n) for n in range(1, 4)]
        producer.send_nowait("t", b"4", on_delivery=outcomes)
        assert producer.buffered.records == 5
        assert producer.buffered.bytes > 0
        held.release()
        assert (await sending).offset == 0
        assert [(await future).offset for future in futures] == [1, 2, 3]
        await producer.flush()
        assert outcomes.offsets == [4]
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(5)]


async def test_more_parked_records_than_one_turn_moves_stay_in_order(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    async with running(brokers) as producer:
        held = brokers.fault(MetadataRequest, hold=True)
        for n in range(4500):
            producer.send_nowait("t", b"%d" % n, partition=n % 2)
        known = asyncio.create_task(producer.partitions_for("t"))
        await held.reached.wait()
        held.release()
        assert len(await known) == 2
        producer.send_nowait("t", b"4500", partition=0)
        await producer.flush()
    assert [record.value for record in topic.partitions[0].records()] == [b"%d" % n for n in range(0, 4501, 2)]
    assert [record.value for record in topic.partitions[1].records()] == [b"%d" % n for n in range(1, 4500, 2)]


async def test_a_topic_that_the_broker_creates_is_waited_for(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        assert (await producer.send("fresh", b"v")).offset == 0
    assert [record.value for record in brokers.state.topics["fresh"].records()] == [b"v"]


async def test_several_new_topics_share_a_metadata_request(brokers: FakeCluster) -> None:
    names = [f"t{n}" for n in range(5)]
    for name in names:
        brokers.create_topic(name)
    async with running(brokers) as producer:
        futures = [producer.submit(name, b"v") for name in names]
        await producer.flush()
        for future in futures:
            await future
    asked = [[topic.name for topic in request.topics or ()] for request in brokers.seen_of(MetadataRequest)]
    assert names in asked
    assert len([topics for topics in asked if topics]) == 1


async def missing_topic(brokers: FakeCluster, producer: Producer, clock: ShiftedClock) -> None:
    """Let the brokers say often and long enough that a topic does not exist."""
    asked = len(brokers.seen_of(MetadataRequest))
    await until(lambda: len(brokers.seen_of(MetadataRequest)) > asked + 4)
    pass_time(producer, clock, 3.0)


async def test_send_to_a_topic_that_does_not_exist_fails_with_the_reason(brokers: FakeCluster) -> None:
    brokers.state.auto_create = False
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        sending = asyncio.create_task(producer.send("absent", b"v"))
        await missing_topic(brokers, producer, clock)
        with pytest.raises(UnknownTopicError, match=r"'absent' does not exist") as raised:
            await sending
        assert raised.value.hint is not None
        assert producer.buffered == (0, 0)
        # It is asked for in the background: once it exists it can be used.
        brokers.create_topic("absent")
        await until(lambda: producer._engine.parts.client.metadata.cluster.partition_count("absent"))
        assert (await producer.send("absent", b"v")).offset == 0


async def test_submit_to_a_topic_that_does_not_exist_was_not_sent(brokers: FakeCluster) -> None:
    brokers.state.auto_create = False
    clock = ShiftedClock()
    outcomes = Outcomes()
    async with running(brokers, clock=clock) as producer:
        future = producer.submit("absent", b"v", partition=3)
        producer.send_nowait("absent", b"w", on_delivery=outcomes)
        await missing_topic(brokers, producer, clock)
        with pytest.raises(NotSentError, match="'absent'") as raised:
            await future
        error = raised.value
        assert (error.topic, error.partition, error.attempts, error.broker, error.code) == ("absent", 3, 0, None, None)
        assert isinstance(error.__cause__, UnknownTopicError)
        assert error.hint == error.__cause__.hint
        (other,) = outcomes.errors
        assert isinstance(other, NotSentError)
        assert other is not error
        report = await producer.close()
    assert (report.delivered, report.not_sent) == (0, 2)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
    ],
)
async def test_a_topic_that_the_cluster_rejects(
    brokers: FakeCluster, code: ErrorCode, expected: type[AioprodError]
) -> None:
    async with running(brokers) as producer:
        brokers.fault(MetadataRequest, error=code, times=4)
        with pytest.raises(expected, match="'t'"):
            await producer.send("t", b"v")
        future = producer.submit("t", b"v")
        with pytest.raises(NotSentError) as raised:
            await future
        assert type(raised.value.__cause__) is expected
        with pytest.raises(expected, match="'t'"):
            await producer.partitions_for("t")
        with pytest.raises(expected, match="'t'"):
            await producer.send_many("t", [b"v"])


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250, "ü"])
async def test_an_invalid_topic_name_raises_at_once(brokers: FakeCluster, name: str) -> None:
    async with running(brokers) as producer:
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(InvalidTopicError):
                call(name, b"v")
        with pytest.raises(InvalidTopicError):
            await producer.send(name, b"v")
        with pytest.raises(InvalidTopicError):
            await producer.send_many(name, [b"v"])
        with pytest.raises(InvalidTopicError):
            await producer.partitions_for(name)
    assert not any(request.topics for request in brokers.seen_of(MetadataRequest))


@pytest.mark.parametrize("name", [7, None, b"t", ["t"]])
async def test_a_topic_that_is_no_str_raises_at_once(brokers: FakeCluster, name: Any) -> None:
    async with running(brokers) as producer:
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(InvalidRecordError, match="str"):
                call(name, b"v")
        with pytest.raises(InvalidRecordError, match="str"):
            await producer.send(name, b"v")
        with pytest.raises(InvalidRecordError, match="str"):
            await producer.send_many(name, [b"v"])
        with pytest.raises(InvalidRecordError, match="str"):
            await producer.partitions_for(name)


async def test_metadata_that_does_not_come_ends_send_after_max_block_ms(brokers: FakeCluster) -> None:
    clock = ShiftedClock()
    errors = ErrorLog()
    async with running(brokers, clock=clock, max_block_ms=30_000, on_error=errors) as producer:
        silence = brokers.fault(MetadataRequest, hold=True, times=None)
        sending = asyncio.create_task(producer.send("t", b"v"))
        future = producer.submit("t", b"w")
        producer.send_nowait("t", b"x", key=b"k", headers=[("h", b"1")], timestamp=5)
        await silence.reached.wait()
        pass_time(producer, clock, 29.0)
        late = producer.submit("t", b"late")
        await turns()
        assert not sending.done()
        pass_time(producer, clock, 1.5)
        with pytest.raises(MetadataTimeoutError, match=r"'t'.*max\.block\.ms=30000"):
            await sending
        with pytest.raises(NotSentError) as raised:
            await future
        assert isinstance(raised.value.__cause__, MetadataTimeoutError)
        assert producer.buffered.records == 1
        late.cancel()
        assert producer.buffered == (0, 0)
        silence.release()
    (call,) = errors.calls
    assert isinstance(call[0], NotSentError)
    record = call[1]
    assert (record.topic, record.value, record.key, record.partition) == ("t", b"x", b"k", None)
    assert (tuple(record.headers or ()), record.timestamp) == ((("h", b"1"),), 5)


async def test_partitions_for_waits_no_longer_than_max_block_ms(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        producer._engine.max_block_s = 0.05
        silence = brokers.fault(MetadataRequest, hold=True)
        with pytest.raises(MetadataTimeoutError, match=r"max\.block\.ms=50"):
            await producer.partitions_for("t")
        with pytest.raises(MetadataTimeoutError, match=r"max\.block\.ms=50"):
            await producer.send_many("u", [b"v"])
        silence.release()


@pytest.mark.parametrize(("name", "expected"), [("absent", UnknownTopicError), ("new", MetadataTimeoutError)])
async def test_an_error_that_is_known_already_gives_the_loop_a_turn(
    brokers: FakeCluster, name: str, expected: type[AioprodError]
) -> None:
    """Otherwise a caller that tries again at once would never see the topic that was created meanwhile."""
    brokers.state.auto_create = False
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        producer.send_nowait("absent", b"v", on_delivery=Outcomes())
        await missing_topic(brokers, producer, clock)
        await producer.flush()
        turn: list[str] = []
        asyncio.get_running_loop().call_soon(turn.append, "a turn")
        with pytest.raises(expected, match=f"'{name}'"):
            await producer._engine.parts.unknown_topics.known(name, 0.0)
        assert turn == ["a turn"]


async def test_the_error_says_what_the_brokers_said_of_the_topic(brokers: FakeCluster) -> None:
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        brokers.fault(MetadataRequest, error=ErrorCode.LEADER_NOT_AVAILABLE, times=None)
        future = producer.submit("t", b"v")
        asked = len(brokers.seen_of(MetadataRequest))
        await until(lambda: len(brokers.seen_of(MetadataRequest)) > asked + 2)
        pass_time(producer, clock, 61.0)
        with pytest.raises(NotSentError, match="LEADER_NOT_AVAILABLE"):
            await future


async def test_a_parked_record_for_a_partition_that_does_not_exist(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    outcomes = Outcomes()
    async with running(brokers) as producer:
        sending = asyncio.create_task(producer.send("t", b"0", partition=2))
        await turns(1)
        good = producer.submit("t", b"1", partition=1)
        bad = producer.submit("t", b"2", partition=7)
        producer.send_nowait("t", b"3", partition=9, on_delivery=outcomes)
        with pytest.raises(InvalidRecordError, match=r"no partition 2: it has 2 \(0 to 1\)"):
            await sending
        assert (await good).offset == 0
        with pytest.raises(NotSentError, match="no partition 7") as raised:
            await bad
        assert isinstance(raised.value.__cause__, InvalidRecordError)
        assert raised.value.partition == 7
        assert len(outcomes.errors) == 1
        with pytest.raises(InvalidRecordError, match="no partition 2"):
            producer.submit("t", b"x", partition=2)
    assert len(topic.records()) == 1


async def test_interceptors_are_notified_of_parked_records_that_fail(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy = Spy()
    async with running(brokers, interceptors=[spy]) as producer:
        sending = asyncio.create_task(producer.send("t", b"0", partition=2))
        await turns(1)
        future = producer.submit("t", b"2", partition=7)
        with pytest.raises(InvalidRecordError):
            await sending
        with pytest.raises(NotSentError):
            await future
    assert [(metadata.topic, metadata.partition, metadata.offset) for metadata, _ in spy.acknowledged] == [
        ("t", 2, -1),
        ("t", 7, -1),
    ]
    assert isinstance(spy.acknowledged[0][1], InvalidRecordError)
    assert isinstance(spy.acknowledged[1][1], NotSentError)


async def test_every_parked_send_gets_its_own_exception(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        brokers.fault(MetadataRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        results = await asyncio.gather(*(producer.send("t", b"v") for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [AuthorizationError] * 3
    assert len({id(result) for result in results}) == 3


async def test_partitions_for_returns_leaders_and_replicas(three_brokers: FakeCluster) -> None:
    three_brokers.create_topic("t", partitions=4)
    async with running(three_brokers) as producer:
        infos = await producer.partitions_for("t")
    assert [(info.topic, info.partition) for info in infos] == [("t", index) for index in range(4)]
    assert [info.leader.id for info in infos if info.leader is not None] == [1, 2, 3, 1]
    assert {node.id for node in infos[0].replicas} == {1, 2, 3}


async def test_metadata_listeners_get_each_snapshot(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t")
    heard: list[Cluster] = []

    def broken(cluster: Cluster) -> None:
        raise RuntimeError("listener is broken")

    async with running(brokers) as producer:
        producer.add_metadata_listener(broken)
        producer.add_metadata_listener(heard.append)
        await producer.send("t", b"v")
    assert heard
    assert heard[-1].partition_count("t") == 1
    assert [record.levelno for record in caplog.records if "listener" in record.message] == [logging.ERROR]


async def test_cancelling_one_waiter_for_a_topic_leaves_the_others(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    async with running(brokers) as producer:
        held = brokers.fault(MetadataRequest, hold=True)
        first = asyncio.create_task(producer.partitions_for("t"))
        second = asyncio.create_task(producer.partitions_for("t"))
        await held.reached.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        held.release()
        assert len(await second) == 2
    assert produced(brokers) == []


async def test_partitions_that_are_added_are_used(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, metadata_max_age_ms=1000) as producer:
        await producer.send("t", b"0")
        topic.partitions.append(type(topic.partitions[0])(1))
        with pytest.raises(InvalidRecordError):
            producer.submit("t", b"1", partition=1)
        pass_time(producer, clock, 2.0)
        seen: list[Cluster] = []
        producer.add_metadata_listener(seen.append)
        await until(lambda: seen)
        assert (await producer.send("t", b"1", partition=1)).offset == 0


async def test_an_idle_topic_is_forgotten_and_looked_up_again(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, metadata_max_age_ms=1000, metadata_max_idle_ms=5000) as producer:
        await producer.send("t", b"0")
        seen: list[Cluster] = []
        producer.add_metadata_listener(seen.append)
        pass_time(producer, clock, 6.0)
        await until(lambda: seen and not seen[-1].topics)
        assert (await producer.send("t", b"1")).offset == 1
