from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from aioprod.calls.leaders import LeaderRequests, PendingPartition
from aioprod.calls.session import Session
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
    UnknownTopicError,
)
from aioprod.messages import ListOffsetsRequest, ListOffsetsResponse, MetadataRequest
from aioprod.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop
from aioprod.types import TopicPartition
from tests.support.clients import Clock
from tests.support.sessions import running_session

TOPIC = "orders"


@dataclass(slots=True, eq=False)
class Errand(PendingPartition):
    """Done when the test says so."""

    finished: bool = False

    @property
    def is_done(self) -> bool:
        return self.finished


def request(node_id: int, errands: Sequence[Errand]) -> ListOffsetsRequest:
    rows = tuple(ListOffsetsPartition(partition_index=one.tp.partition, timestamp=-1) for one in errands)
    return ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=TOPIC, partitions=rows),))


Leaders = LeaderRequests[Errand, ListOffsetsResponse]


async def errands_for(session: Session) -> tuple[Leaders, list[Errand]]:
    """Something to do in each partition of the topic."""
    errands = [Errand(TopicPartition(TOPIC, info.partition)) for info in await session.partitions(TOPIC)]
    return LeaderRequests(session, errands, request, purpose="looked at", operation="READ"), errands


async def step(leaders: Leaders) -> list[int] | None:
    """Take one answer; which partitions it was of use for, None at the end."""
    answer = await leaders.next()
    if answer is None:
        return None
    partitions, response = answer[:2]
    rows = {row.partition_index: row for row in response.topics[0].partitions}
    done = []
    for one in partitions:
        code = ErrorCode.of(rows[one.tp.partition].error_code)
        if code == ErrorCode.NONE:
            one.finished = True
            leaders.succeeded(one)
            done.append(one.tp.partition)
        else:
            leaders.rejected(one, code)
    return done


async def finish(leaders: Leaders) -> list[list[int]]:
    """Take all answers."""
    answers = []
    async with leaders:
        while (done := await step(leaders)) is not None:
            answers.append(done)
    return answers


async def test_each_leader_gets_one_request_for_all_of_its_partitions() -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 5)
        leaders, _ = await errands_for(session)
        assert sorted(await finish(leaders)) == [[0, 2, 4], [1, 3]]


async def test_no_partitions_send_no_request() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        assert await LeaderRequests(session, [], request, purpose="looked at", operation="READ").next() is None
        assert not brokers.seen_of(ListOffsetsRequest)


async def test_a_broker_gets_its_next_request_by_the_next_call() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 2)
        leaders, _ = await errands_for(session)
        async with leaders:
            for count in (1, 2, 3):
                assert await leaders.next() is not None
                assert len(brokers.seen_of(ListOffsetsRequest)) == count


async def test_no_broker_starves_another() -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 2)
        leaders, _ = await errands_for(session)
        async with leaders:
            for _ in range(10):
                first = await leaders.next()
                while not all(ask.task.done() for ask in leaders._in_flight.values()):
                    await asyncio.sleep(0)
                second = await leaders.next()
                assert first is not None
                assert second is not None
                assert {one.tp.partition for one in (*first[0], *second[0])} == {0, 1}


class HastyClock:
    """Moves on by a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self.offset_s = 0.0

    def __call__(self) -> float:
        self.offset_s += 0.001
        return asyncio.get_running_loop().time() + self.offset_s


async def test_a_backoff_may_end_at_any_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.calls.leaders._REFRESH_S", 3600.0)
    for backoff_s in (0.0005, 0.0015, 0.0025, 0.0035, 0.0045):
        async with FakeCluster() as brokers, running_session(brokers, clock=HastyClock()) as session:
            monkeypatch.setattr(session, "backoff_s", lambda failures, wait_s=backoff_s: wait_s)
            brokers.create_topic(TOPIC)
            brokers.fault(ListOffsetsRequest, error=ErrorCode.REQUEST_TIMED_OUT)
            leaders, _ = await errands_for(session)
            async with asyncio.timeout(10):
                assert await finish(leaders) == [[], [0]]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR]
)
async def test_an_error_that_may_pass_is_tried_again(code: ErrorCode) -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 2)
        brokers.fault(ListOffsetsRequest, times=3, error=code, partition=TopicPartition(TOPIC, 1))
        leaders, errands = await errands_for(session)
        assert await finish(leaders) == [[0], [], [], [1]]
        assert [one.failures for one in errands] == [0, 0]


def test_partitions_that_fail_by_one_answer_are_tried_again_by_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        clock = asyncio.get_running_loop().time
        async with FakeCluster() as brokers, running_session(brokers, clock=clock) as session:
            brokers.create_topic(TOPIC, 20)
            brokers.fault(ListOffsetsRequest, times=2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            jitter = iter(range(1, 100))
            monkeypatch.setattr(session, "backoff_s", lambda failures: next(jitter) * 0.002)
            leaders, _ = await errands_for(session)
            assert await finish(leaders) == [[], [], list(range(20))]

    # In simulated time no answer takes longer to read than a backoff lasts, however slow the machine is.
    with SimulatedLoop(1) as loop:
        loop.run(scene())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNKNOWN_SERVER_ERROR, BrokerError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (9999, BrokerError),
    ],
)
async def test_an_error_that_stays_is_raised(code: ErrorCode | int, kind: type[AioprodError]) -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        leaders, errands = await errands_for(session)
        with pytest.raises(kind, match="Partition 0 of topic 'orders' could not be looked at: the broker answered"):
            leaders.rejected(errands[0], code)


async def test_it_follows_a_leader_that_moves() -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 2)
        leaders, _ = await errands_for(session)
        brokers.state.move_leader(TopicPartition(TOPIC, 0), 2)
        await finish(leaders)
        assert brokers.seen_of(ListOffsetsRequest, node=1)


async def test_it_waits_for_a_leader() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        brokers.state.move_leader(TopicPartition(TOPIC, 0), None)
        leaders, _ = await errands_for(session)
        doing = asyncio.ensure_future(finish(leaders))
        await asyncio.sleep(0)
        brokers.state.move_leader(TopicPartition(TOPIC, 0), 1)
        assert await doing == [[0]]


async def test_a_lost_connection_is_made_again() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        brokers.fault(ListOffsetsRequest, drop="before")
        brokers.fault(ListOffsetsRequest, drop="after")
        leaders, _ = await errands_for(session)
        assert await finish(leaders) == [[0]]


@pytest.mark.parametrize("silent", [True, False])
async def test_a_broker_that_hangs_is_left_when_others_lead(monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 2)
        held = brokers.fault(ListOffsetsRequest, node=1, hold=True)
        leaders, _ = await errands_for(session)
        async with leaders:
            assert await step(leaders) == [1]
            await held.reached.wait()
            brokers.state.move_leader(TopicPartition(TOPIC, 0), 2)
            if silent:
                monkeypatch.setattr("aioprod.calls.leaders._REFRESH_S", 0.01)
            else:
                session.client.metadata.request_update(session.clock(), TOPIC)
            assert await step(leaders) == [0]
        held.release()


async def test_it_times_out_without_progress() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 6)
        for index in (0, 5):
            brokers.state.move_leader(TopicPartition(TOPIC, index), None)
        brokers.fault(ListOffsetsRequest, times=None, error=ErrorCode.REQUEST_TIMED_OUT)
        leaders, _ = await errands_for(session)
        assert await step(leaders) == []
        session.timeout_s = 2.0
        with pytest.raises(
            RequestTimedOutError,
            match=r"Topic 'orders' could not be looked at within 2 s \(default\.api\.timeout\.ms\): "
            r"orders-0 has no leader; orders-1: its leader answered REQUEST_TIMED_OUT; orders-2: .*; "
            r"and 3 partitions more\.$",
        ) as failure:
            await finish(leaders)
        assert isinstance(failure.value.__cause__, BrokerError)


async def test_it_times_out_on_a_broker_that_never_answers() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        held = brokers.fault(ListOffsetsRequest, hold=True)
        leaders, _ = await errands_for(session)
        session.timeout_s = 0.05
        with pytest.raises(RequestTimedOutError, match=r"orders-0: its leader has not answered\.$") as failure:
            await finish(leaders)
        assert failure.value.__cause__ is None
        held.release()


async def test_time_outside_of_the_calls_does_not_count() -> None:
    clock = Clock()
    async with FakeCluster() as brokers, running_session(brokers, clock=clock) as session:
        brokers.create_topic(TOPIC)
        brokers.fault(ListOffsetsRequest, times=1, error=ErrorCode.REQUEST_TIMED_OUT)
        leaders, errands = await errands_for(session)
        async with leaders:
            answer = await leaders.next()
            assert answer is not None
            leaders.rejected(errands[0], ErrorCode.REQUEST_TIMED_OUT)
            clock.advance(2 * session.timeout_s)
            assert await leaders.next() is not None


async def test_an_answer_that_leaves_a_partition_out_is_of_no_use() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        leaders, (one,) = await errands_for(session)
        leaders.missing_in_response(one)
        assert isinstance(one.last_error, ProtocolError)
        assert one.failures == 1
        assert await finish(leaders) == [[0]]


async def test_a_topic_that_is_deleted() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        leaders, _ = await errands_for(session)
        del brokers.state.topics[TOPIC]
        with pytest.raises(UnknownTopicError, match="does not exist"):
            await finish(leaders)


async def test_what_no_retry_helps_is_raised() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        brokers.fault(ListOffsetsRequest, reply=b"\x7f\xff\xff\xff")
        leaders, _ = await errands_for(session)
        with pytest.raises(ProtocolError, match="announces a frame"):
            await finish(leaders)


async def test_a_forgotten_topic_is_requested_again() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        leaders, _ = await errands_for(session)
        session.client.metadata.forget_topic(TOPIC)
        assert await finish(leaders) == [[0]]


async def test_no_task_is_left() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        held = brokers.fault(ListOffsetsRequest, hold=True)
        leaders, _ = await errands_for(session)
        before = asyncio.all_tasks()
        doing = asyncio.ensure_future(finish(leaders))
        await held.reached.wait()
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing
        assert not [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)]
        held.release()


async def test_an_error_without_a_waiter_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC, 2)
        dropped = brokers.fault(ListOffsetsRequest, node=1, drop="before", hold=True)
        leaders, _ = await errands_for(session)
        async with leaders:
            assert await step(leaders) == [1]
            dropped.release()
            while leaders._tasks:
                await asyncio.sleep(0)
            task = leaders._in_flight[1].task
            assert task.done()
        del leaders, task
        gc.collect()
        assert "never retrieved" not in caplog.text


async def test_metadata_errors_are_no_reason_to_stop_while_leaders_are_known() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic(TOPIC)
        leaders, _ = await errands_for(session)
        brokers.fault(MetadataRequest, times=2, error=ErrorCode.LEADER_NOT_AVAILABLE)
        brokers.fault(ListOffsetsRequest, times=2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert await finish(leaders) == [[], [], [0]]


def test_a_pending_partition_has_to_define_is_done() -> None:
    with pytest.raises(NotImplementedError):
        _ = replace(PendingPartition(TopicPartition(TOPIC, 0))).is_done
