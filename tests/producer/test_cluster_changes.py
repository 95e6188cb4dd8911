"""The cluster changes while records are on their way: leaders in answers, topics made anew, brokers that stall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.cluster import Cluster
from aioprod.errors import DeliveryError, ErrorCode, NotSentError, UnknownOutcomeError
from aioprod.messages import MetadataRequest, ProduceRequest, ProduceResponse
from aioprod.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakeTopic
from aioprod.wire.frame import encode_response
from tests.support.producers import ShiftedClock, pass_time, running, turns, until

NO_REFRESH_SOON: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}


def values(topic: FakeTopic) -> list[bytes | None]:
    return [record.value for record in topic.records()]


def names(answer: ProduceResponse, leader: int, epoch: int) -> ProduceResponse:
    """The answer of a broker that is not the leader, and names one."""
    row = PartitionProduceResponse(
        index=0,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        base_offset=-1,
        error_message=None,
        current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
    )
    return replace(answer, responses=(replace(answer.responses[0], partition_responses=(row,)),))


# -- leaders ---------------------------------------------------------------------------------------------------------


async def test_a_leader_that_an_answer_names_is_followed_at_once(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t", partitions=3)
    async with running(brokers, batch_size=0, **NO_REFRESH_SOON) as producer:
        await producer.send("t", b"0", partition=0)
        brokers.state.move_leader(TopicPartition("t", 0), 2)
        futures = [producer.submit("t", b"%d" % n, partition=0) for n in range(1, 6)]
        # Neither the backoff nor new metadata are waited for: each would take a minute.
        async with asyncio.timeout(10):
            assert [(await future).offset for future in futures] == [1, 2, 3, 4, 5]
    assert values(topic) == [b"%d" % n for n in range(6)]


async def test_a_broker_that_is_no_leader_and_names_itself_waits_for_the_backoff(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    clock = ShiftedClock()
    epochs = iter(range(100, 200))

    async with running(brokers, clock=clock, **NO_REFRESH_SOON) as producer:
        await producer.partitions_for("t")
        lying = brokers.fault(ProduceRequest, edit=lambda answer: names(answer, 1, next(epochs)), times=None)
        future = producer.submit("t", b"v")
        await until(lambda: producer.metrics()["record_retry_total"])
        await turns(20)
        assert len(brokers.seen_of(ProduceRequest)) == 1
        lying.end()
        pass_time(producer, clock, 100.0)
        await future
    assert values(topic)[-1] == b"v"


async def test_brokers_that_name_each_other_in_turn_wait_for_the_backoff(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t")
    clock = ShiftedClock()
    epochs = iter(range(100, 10_000))

    def naming(leader: int) -> Callable[[ProduceResponse], ProduceResponse]:
        return lambda answer: names(answer, leader, next(epochs))

    async with running(brokers, clock=clock, **NO_REFRESH_SOON) as producer:
        await producer.partitions_for("t")
        lying = [brokers.fault(ProduceRequest, edit=naming(3 - node), node=node, times=None) for node in (1, 2)]
        future = producer.submit("t", b"v")
        await until(lambda: producer.metrics()["record_retry_total"] == 2)
        await turns(50)
        assert len(brokers.seen_of(ProduceRequest)) == 2
        for fault in lying:
            fault.end()
        pass_time(producer, clock, 100.0)
        await future
    assert values(topic)[-1] == b"v"


async def test_a_hint_may_name_a_broker_that_was_not_known_before(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with FakeCluster(1) as newcomers:
        newcomer = newcomers[1]
        async with running(brokers, **NO_REFRESH_SOON) as producer:
            await producer.send("t", b"0")
            brokers.state.nodes[2] = newcomer.address
            newcomer.node_id = 2
            newcomer._cluster = brokers
            brokers.state.move_leader(TopicPartition("t", 0), 2)
            async with asyncio.timeout(10):
                assert (await producer.send("t", b"1")).offset == 1
    assert values(topic) == [b"0", b"1"]


async def test_a_hint_at_an_older_leader_changes_nothing(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t", partitions=3)
    async with running(brokers) as producer:
        await producer.send("t", b"0", partition=0)
        topic.partitions[0].leader = 3
        # The epoch stays, so it is no news; metadata will tell.
        waiting = producer.submit("t", b"1", partition=0)
        await until(lambda: producer.metrics()["record_retry_total"] >= 1)
        topic.partitions[0].leader_epoch += 1
        assert (await waiting).offset == 1


# -- topics that are made anew ---------------------------------------------------------------------------------------


def make_anew(brokers: FakeCluster, name: str, partitions: int = 1) -> FakeTopic:
    del brokers.state.topics[name]
    return brokers.create_topic(name, partitions)


async def test_what_was_sent_to_the_old_topic_does_not_follow_to_the_new_one(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.send("t", b"1")
        new = make_anew(brokers, "t")
        with pytest.raises(DeliveryError, match="deleted and created again") as raised:
            await producer.send("t", b"2")
        assert raised.value.attempts >= 1
        # What is accepted once the new topic is known goes there.
        async with asyncio.timeout(10):
            assert (await producer.send("t", b"3")).offset == 0
    assert values(new) == [b"3"]


async def test_a_batch_that_backs_off_fails_when_its_topic_turns_out_to_be_another(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, metadata_max_age_ms=1000) as producer:
        await producer.send("t", b"1")
        failing = brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=None)
        future = producer.submit("t", b"2")
        await until(lambda: producer.metrics()["record_retry_total"] >= 1)
        new = make_anew(brokers, "t")
        pass_time(producer, clock, 2.0)
        with pytest.raises(DeliveryError, match="deleted and created again"):
            async with asyncio.timeout(10):
                await future
        failing.times = failing.hits
        assert (await producer.send("t", b"3")).offset == 0
    assert values(new) == [b"3"]


@pytest.mark.parametrize("answered", [True, False])
async def test_a_batch_in_flight_when_its_topic_is_created_again(three_brokers: FakeCluster, answered: bool) -> None:
    brokers = three_brokers
    old = brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, metadata_max_age_ms=1000) as producer:
        await producer.send("t", b"1")
        brokers.create_topic("other", partitions=3)
        for n in range(3):
            await producer.send("other", b"v", partition=n)
        held = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"2")
        await held.reached.wait()
        new = make_anew(brokers, "t")
        seen: list[Cluster] = []
        producer.add_metadata_listener(seen.append)
        # One of the other brokers is asked: this one is busy.
        pass_time(producer, clock, 2.0)
        await until(lambda: any(cluster.topic_ids.get("t") == new.id for cluster in seen))
        if not answered:
            await brokers[1].cut()
            with pytest.raises(UnknownOutcomeError, match="deleted and created again"):
                await future
            return
        stored = PartitionProduceResponse(index=0, base_offset=1, log_start_offset=0)
        answer = ProduceResponse(responses=(TopicProduceResponse(topic_id=old.id, partition_responses=(stored,)),))
        header = next(one.header for one in reversed(brokers.seen) if isinstance(one.message, ProduceRequest))
        held.reply = encode_response(answer, header.version, header.correlation_id)
        held.release()
        assert (await future).offset == 1
    assert values(new) == [], "it was not sent again"


async def test_what_waited_for_the_old_topic_does_not_follow_either(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    brokers.state.move_leader(TopicPartition("t", 1), None)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, metadata_max_age_ms=1000) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"1", partition=1)
        new = make_anew(brokers, "t", partitions=2)
        pass_time(producer, clock, 2.0)
        with pytest.raises(NotSentError, match="deleted and created again"):
            await future
        assert (await producer.send("t", b"2", partition=1)).offset == 0
    assert values(new) == [b"2"]


async def test_a_topic_with_waiting_records_is_not_forgotten(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    clock = ShiftedClock()
    options: dict[str, Any] = {
        "metadata_max_age_ms": 10_000,
        "metadata_max_idle_ms": 20_000,
        "delivery_timeout_ms": 600_000,
    }
    async with running(brokers, clock=clock, **options) as producer:
        await producer.send("t", b"1")
        topic.partitions[0].leader = None
        topic.partitions[0].leader_epoch += 1
        waiting = producer.submit("t", b"2")
        for _ in range(4):
            asked = len(brokers.seen_of(MetadataRequest))
            pass_time(producer, clock, 15.0)
            await until(lambda: len(brokers.seen_of(MetadataRequest)) > asked)  # noqa: B023 - awaited at once
        topic.partitions[0].leader = 1
        topic.partitions[0].leader_epoch += 1
        async with asyncio.timeout(10):
            while not waiting.done():
                pass_time(producer, clock, 11.0)
                await asyncio.sleep(0.005)
        assert (await waiting).offset == 1


# -- brokers that stall ----------------------------------------------------------------------------------------------


async def test_records_without_key_avoid_a_broker_that_takes_nothing(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t", partitions=3)
    clock = ShiftedClock()
    options: dict[str, Any] = {"partitioner_availability_timeout_ms": 1000, "batch_size": 200, "buffer_memory": 10**7}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        stuck = producer.submit("t", b"stuck", partition=0)
        await turns()
        pass_time(producer, clock, 2.0)
        await turns()
        futures = [producer.submit("t", b"x" * 150) for _ in range(200)]
        avoided = sum(
            held.records for held in producer._engine.parts.accumulator.incomplete if held.partition.index == 0
        )
        assert avoided <= 3, "what was open already, and no more"
        await brokers[1].start()
        await stuck
        for future in futures:
            await future
        # It takes records again: nobody avoids it any more.
        partitions = {(await producer.send("t", b"x" * 150)).partition for _ in range(200)}
        assert partitions == {0, 1, 2}
    assert len(topic.records()) == 401


async def test_a_broker_that_stalled_with_nothing_left_to_send_is_not_avoided_for_ever(
    three_brokers: FakeCluster,
) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=3)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, partitioner_availability_timeout_ms=1000, batch_size=200) as producer:
        await producer.partitions_for("t")
        given_up = producer.submit("t", b"v", partition=1)
        await turns(1)
        given_up.cancel()
        for _ in range(3):
            pass_time(producer, clock, 2.0)
            await turns()
        partitions = {(await producer.send("t", b"x" * 150)).partition for _ in range(200)}
        assert partitions == {0, 1, 2}


async def test_the_deadline_holds_while_the_broker_throttles(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, throttle_ms=600_000)
        await producer.send("t", b"0")
        # Now that it sleeps for long: nothing but the deadline of the next record can wake it in time.
        accumulator = producer._engine.parts.accumulator
        accumulator.settings = accumulator.settings._replace(delivery_timeout_s=0.05)
        with pytest.raises(NotSentError, match=r"delivery\.timeout\.ms=.* has passed"):
            async with asyncio.timeout(10):
                await producer.send("t", b"1")


async def test_a_record_for_a_broker_whose_idle_connection_was_cut(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=3)
    async with running(brokers, reconnect_backoff_ms=50, reconnect_backoff_max_ms=50) as producer:
        for n in range(3):
            await producer.send("t", b"0", partition=n)
        lost = producer.metrics()["connection_close_total"]
        await brokers[1].cut()
        await until(lambda: producer.metrics()["connection_close_total"] > lost)
        async with asyncio.timeout(10):
            assert (await producer.send("t", b"1", partition=0)).offset == 1
