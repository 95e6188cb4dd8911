"""The membership of KIP-848 without I/O: its heartbeats, and every response in every state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aioprod.group.config import MemberConfig
from aioprod.group.errors import member_error
from aioprod.group.kip848.membership import ConsumerMembership
from aioprod.group.kip848.states import TRANSITIONS, Event, State
from aioprod.group.membership import Assign, DescribeTopics, Failed, LeftGroup, Revoke, SendRequest, Step, Wait
from aioprod.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatResponse
from aioprod.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata, TopicPartition

CLICKS, ORDERS = UUID(int=1), UUID(int=2)
IDS = {"clicks": CLICKS, "orders": ORDERS}
INTERVAL_S, SESSION_S, POLL_S, BACKOFF_S = 5.0, 45.0, 300.0, 0.1
NONE = ErrorCode.NONE


def tps(topic: str, *partitions: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, partition) for partition in partitions)


def rows(given: Iterable[tuple[UUID, tuple[int, ...]]]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in given)


class Bench:
    """A member at time `now`, with the answers of a coordinator made up."""

    def __init__(self, topics: Iterable[str] = ("clicks",), *, version: int = 1, **options: Any) -> None:
        self.now, self.version = 100.0, version
        self.ids: dict[str, UUID] = dict(IDS)
        config = MemberConfig.from_options(bootstrap_servers="b:9092", group_protocol="consumer", **options)
        self.one = ConsumerMembership(
            "g", frozenset(topics), "me", config, self.ids.get, lambda failures: BACKOFF_S * 2**failures, self.now
        )

    def step(self) -> Step:
        step = self.one.step(self.now)
        assert self.one.step(self.now) == step
        return step

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that is due."""
        assert self.one.heartbeat_at <= self.now
        words = self.one.heartbeat(self.now)
        assert words is not None
        return self.built(words)

    def built(self, words: ByVersion[ConsumerGroupHeartbeatResponse]) -> ConsumerGroupHeartbeatRequest:
        request = words.build(self.version)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        assert self.one.heartbeat_at == math.inf or self.one.state in (State.JOINING, State.MEMBER)
        return request

    def receives(
        self,
        code: ErrorCode | int = NONE,
        epoch: int = 2,
        given: Iterable[tuple[UUID, tuple[int, ...]]] | None = None,
        member_id: str | None = None,
        interval_ms: int = int(INTERVAL_S * 1000),
    ) -> None:
        response = ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=None if given is None else Assignment(topic_partitions=rows(given)),
        )
        self.one.heartbeat_response_received(response, self.now)

    def has_joined(self, *partitions: int) -> None:
        """Join, and own these partitions of clicks."""
        self.heartbeat()
        self.receives(given=[(CLICKS, partitions)] if partitions else [])
        assert self.step() == Assign(tps("clicks", *partitions))
        self.one.assigned(self.now)
        if partitions:
            self.heartbeat()
            self.receives()
        assert self.one.owned == set(tps("clicks", *partitions))

    def passes(self, seconds: float) -> None:
        self.now += seconds


def test_the_heartbeat_that_joins_is_a_full_one() -> None:
    bench = Bench(("orders", "clicks"), client_rack="r1", group_remote_assignor="range", group_instance_id="static")
    assert bench.one.metadata == GroupMetadata("g", group_instance_id="static")
    assert bench.one.is_rebalancing
    assert bench.step() == Wait(math.inf)
    assert bench.heartbeat() == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="me",
        member_epoch=0,
        instance_id="static",
        rack_id="r1",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("clicks", "orders"),
        server_assignor="range",
        topic_partitions=(),
    )
    bench.receives(epoch=7)
    assert bench.one.metadata == GroupMetadata("g", 7, "me", "static")
    assert not bench.one.is_rebalancing


def test_later_heartbeats_carry_only_changes() -> None:
    bench = Bench()
    bench.heartbeat()
    bench.receives(given=[(CLICKS, (0, 1))])
    assert bench.one.heartbeat_at == bench.now + INTERVAL_S
    assert bench.step() == Assign(tps("clicks", 0, 1))
    bench.one.assigned(bench.now)
    bare = ConsumerGroupHeartbeatRequest(group_id="g", member_id="me", member_epoch=2)
    said = bench.heartbeat()
    assert said.topic_partitions == rows([(CLICKS, (0, 1))])
    assert (said.subscribed_topic_names, said.rebalance_timeout_ms) == (None, -1)
    bench.receives()
    bench.passes(INTERVAL_S)
    assert bench.heartbeat() == bare
    bench.receives()
    bench.one.subscribe(frozenset({"orders"}), bench.now)
    said = bench.heartbeat()
    assert (said.subscribed_topic_names, said.topic_partitions) == (("orders",), None)
    bench.one.subscribe(frozenset({"clicks"}), bench.now)
    bench.receives()
    assert bench.heartbeat().subscribed_topic_names == ("clicks",)


@pytest.mark.parametrize("interval_ms", [-1, 0, 1])
def test_the_coordinator_may_not_have_it_send_heartbeats_without_end(interval_ms: int) -> None:
    bench = Bench()
    bench.has_joined(0)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(interval_ms=interval_ms)
    assert bench.one.heartbeat_at == bench.now + 0.1


def test_an_assignment_that_no_member_can_read_ends_it() -> None:
    bench = Bench()
    bench.heartbeat()
    bench.receives(given=[(CLICKS, tuple(range(100_001)))])
    step = bench.step()
    assert isinstance(step, Failed)
    assert step.error.message.startswith("This member is assigned 100,001 partitions")


def test_before_version_1_the_coordinator_names_it() -> None:
    bench = Bench(version=0)
    assert bench.heartbeat().member_id == ""
    bench.receives(member_id="theirs", given=[])
    assert bench.one.metadata.member_id == "theirs"
    bench.one.assigned(bench.now)
    bench.passes(INTERVAL_S)
    assert bench.heartbeat().member_id == "theirs"
    bench.receives(ErrorCode.FENCED_MEMBER_EPOCH)
    bench.step()
    said = bench.heartbeat()
    assert (said.member_id, said.member_epoch) == ("theirs", 0)


def test_it_revokes_first_and_reports_that_at_once() -> None:
    bench = Bench()
    bench.has_joined(0, 1)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(given=[(CLICKS, (1, 2))])
    assert bench.step() == Revoke(tps("clicks", 0))
    bench.one.revoked(bench.now)
    assert bench.heartbeat().topic_partitions == rows([(CLICKS, (1,))])
    assert bench.step() == Assign(tps("clicks", 2))
    bench.one.assigned(bench.now)
    bench.receives()
    assert bench.heartbeat().topic_partitions == rows([(CLICKS, (1, 2))])
    bench.receives()
    assert bench.step() == Wait(bench.now + SESSION_S)


def test_an_assignment_may_come_later() -> None:
    """Brokers from 4.3 on assign some time after the heartbeat that causes it (KIP-1263)."""
    bench = Bench()
    bench.heartbeat()
    bench.receives()
    assert bench.step() == Wait(bench.now + SESSION_S)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(epoch=3, given=[(CLICKS, (0,))])
    assert bench.step() == Assign(tps("clicks", 0))


def test_being_fenced_during_a_revocation() -> None:
    bench = Bench()
    bench.has_joined(0, 1)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(given=[(CLICKS, (1,))])
    assert bench.step() == Revoke(tps("clicks", 0))
    # Heartbeats continue while the callback of the user runs.
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(ErrorCode.FENCED_MEMBER_EPOCH)
    bench.one.revoked(bench.now)
    assert bench.one.heartbeat_at == math.inf
    assert bench.step() == Revoke(tps("clicks", 1), is_lost=True)
    bench.one.revoked(bench.now)
    assert bench.heartbeat().member_epoch == 0


def test_a_response_without_a_request_is_ignored() -> None:
    bench = Bench()
    bench.receives(epoch=5)
    assert bench.one.state is State.JOINING


def test_an_empty_assignment_runs_the_callback_once() -> None:
    bench = Bench()
    bench.has_joined()
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(given=[])
    assert isinstance(bench.step(), Wait)


def test_a_lost_response_is_followed_by_a_full_heartbeat() -> None:
    """The answer that was lost may have been the only one with the new assignment."""
    bench = Bench()
    bench.has_joined(0)
    bench.passes(INTERVAL_S)
    words = bench.one.heartbeat(bench.now)
    assert words is not None
    assert bench.built(words).topic_partitions is None
    said = bench.built(words)
    assert (said.member_epoch, said.topic_partitions) == (2, rows([(CLICKS, (0,))]))
    assert (said.subscribed_topic_names, said.rebalance_timeout_ms) == (("clicks",), 300_000)
    bench.one.heartbeat_failed(RequestTimedOutError("late"), bench.now)
    for failures in range(3):
        assert bench.one.heartbeat_at == pytest.approx(bench.now + BACKOFF_S * 2**failures)
        bench.passes(BACKOFF_S * 2**failures)
        assert bench.heartbeat().topic_partitions is not None
        bench.receives(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) if failures else bench.one.heartbeat_failed(
            RequestTimedOutError("late"), bench.now
        )
    bench.passes(1.0)
    bench.heartbeat()
    bench.receives()
    assert bench.one.heartbeat_at == bench.now + INTERVAL_S
    bench.passes(INTERVAL_S)
    assert bench.heartbeat().topic_partitions is None


def test_topics_without_a_name() -> None:
    bench = Bench(("clicks", "orders"))
    del bench.ids["orders"]
    bench.heartbeat()
    bench.receives(given=[(CLICKS, (0,)), (ORDERS, (5,))])
    assert bench.step() == DescribeTopics(frozenset({"clicks", "orders"}))
    bench.one.topics_described({}, bench.now)
    assert bench.step() == Assign(tps("clicks", 0))
    bench.one.assigned(bench.now)
    assert bench.step() == Wait(bench.now + BACKOFF_S)
    bench.passes(BACKOFF_S)
    assert isinstance(bench.step(), DescribeTopics)
    bench.ids["orders"] = ORDERS
    bench.one.topics_described({}, bench.now)
    assert bench.step() == Assign(tps("orders", 5))
    bench.one.assigned(bench.now)
    assert bench.heartbeat().topic_partitions == rows([(CLICKS, (0,)), (ORDERS, (5,))])


def test_metadata_may_name_topics_too() -> None:
    bench = Bench()
    bench.ids.clear()
    bench.heartbeat()
    bench.receives(given=[(CLICKS, (0,))])
    bench.ids.update(IDS)
    bench.one.topics_changed({"clicks": 1}, bench.now)
    assert bench.step() == Assign(tps("clicks", 0))


def test_a_recreated_topic_has_another_id() -> None:
    bench = Bench()
    bench.has_joined(0)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.ids["clicks"] = UUID(int=9)
    bench.receives(given=[(UUID(int=9), (0,))])
    assert bench.step() == Revoke(tps("clicks", 0))
    bench.one.revoked(bench.now)
    assert bench.step() == Assign(tps("clicks", 0))


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND], ids=str
)
def test_a_fenced_member_loses_all_and_rejoins(code: ErrorCode) -> None:
    bench = Bench()
    bench.has_joined(0, 1)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(code)
    assert bench.one.heartbeat_at == math.inf
    assert bench.one.metadata == GroupMetadata("g")
    assert bench.step() == Revoke(tps("clicks", 0, 1), is_lost=True)
    bench.one.revoked(bench.now)
    said = bench.heartbeat()
    assert (said.member_id, said.member_epoch, said.topic_partitions) == ("me", 0, ())
    bench.receives(given=[(CLICKS, (1,))], epoch=9)
    assert bench.step() == Assign(tps("clicks", 1))


def test_a_session_may_end_unheard() -> None:
    bench = Bench()
    bench.has_joined(0)
    bench.passes(INTERVAL_S)
    words = bench.one.heartbeat(bench.now)
    assert words is not None
    bench.built(words)
    bench.passes(SESSION_S - INTERVAL_S)
    assert bench.step() == Revoke(tps("clicks", 0), is_lost=True)
    # The request is still being tried: it says now that the member has gone, and then that it is back.
    assert bench.built(words).member_epoch == -1
    bench.one.revoked(bench.now)
    assert bench.built(words).member_epoch == 0
    bench.receives(epoch=4, given=[])
    assert bench.one.metadata.generation_id == 4


def test_an_answer_from_an_earlier_life_is_none() -> None:
    bench = Bench()
    bench.has_joined(0)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.passes(SESSION_S)
    bench.step()
    bench.one.revoked(bench.now)
    bench.receives(epoch=3)
    assert bench.one.state is State.JOINING
    assert bench.heartbeat().member_epoch == 0


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("static", -2)])
def test_max_poll_interval_leaves_until_the_next_poll(instance_id: str | None, epoch: int) -> None:
    bench = Bench(group_instance_id=instance_id)
    bench.has_joined(0)
    for _ in range(int(POLL_S // INTERVAL_S) - 1):
        bench.passes(INTERVAL_S)
        bench.heartbeat()
        bench.receives()
    bench.passes(INTERVAL_S)
    assert bench.heartbeat().member_epoch == epoch
    bench.receives(epoch=epoch)
    assert bench.one.heartbeat_at == math.inf
    assert bench.step() == Revoke(tps("clicks", 0), is_lost=True)
    bench.one.polled(bench.now)
    bench.one.revoked(bench.now)
    assert bench.heartbeat().member_epoch == 0


def test_an_application_that_never_polls() -> None:
    bench = Bench()
    bench.passes(POLL_S)
    assert bench.one.heartbeat_at <= bench.now
    assert bench.one.heartbeat(bench.now) is None
    assert bench.one.heartbeat_at == math.inf
    assert bench.step() == Wait(math.inf)
    bench.one.polled(bench.now)
    assert bench.step() == Revoke((), is_lost=True)
    bench.one.revoked(bench.now)
    assert bench.heartbeat().member_epoch == 0


def test_the_leave_request_is_repeated_until_it_is_answered() -> None:
    bench = Bench()
    bench.has_joined()
    bench.passes(SESSION_S - 1)
    bench.one.polled(bench.now - POLL_S)
    bench.heartbeat()
    bench.one.heartbeat_failed(RequestTimedOutError("late"), bench.now)
    bench.passes(BACKOFF_S)
    assert bench.heartbeat().member_epoch == -1
    bench.receives(ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.one.heartbeat_at == math.inf


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("static", -2)])
def test_leaving(instance_id: str | None, epoch: int) -> None:
    bench = Bench(group_instance_id=instance_id)
    bench.has_joined(0)
    bench.one.leave(bench.now)
    assert bench.step() == Revoke(tps("clicks", 0))
    # Offsets can be committed while it revokes: it is still a member, and sends heartbeats.
    bench.passes(INTERVAL_S)
    assert bench.heartbeat().member_epoch == 2
    bench.receives(epoch=3)
    assert bench.one.metadata.generation_id == 3
    bench.one.revoked(bench.now)
    step = bench.step()
    assert isinstance(step, SendRequest)
    assert isinstance(step.request, ByVersion)
    assert step.request.build(1) == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="me", member_epoch=epoch, instance_id=instance_id
    )
    assert bench.one.heartbeat_at == math.inf
    bench.one.response_received(HeartbeatResponse(error_code=0), bench.now)
    assert bench.step() == LeftGroup()
    bench.one.leave(bench.now)
    assert bench.step() == LeftGroup()


def test_leaving_while_a_heartbeat_is_on_its_way() -> None:
    """Its answer is not that of the leave."""
    bench = Bench()
    bench.has_joined()
    words = bench.one.heartbeat(bench.now)
    assert words is not None
    bench.built(words)
    bench.one.leave(bench.now)
    step = bench.step()
    assert isinstance(step, SendRequest)
    bench.built(words)
    bench.receives()
    assert bench.step() == step
    bench.one.response_received(HeartbeatResponse(error_code=0), bench.now)
    assert bench.step() == LeftGroup()


def test_leaving_without_an_answer() -> None:
    bench = Bench()
    bench.has_joined()
    bench.one.leave(bench.now)
    assert isinstance(bench.step(), SendRequest)
    bench.one.request_failed(RequestTimedOutError("late"), bench.now)
    bench.one.request_failed(RequestTimedOutError("late"), bench.now)
    assert bench.step() == LeftGroup()


def test_leaving_before_the_first_heartbeat() -> None:
    bench = Bench()
    bench.one.leave(bench.now)
    assert bench.step() == LeftGroup()


def test_leaving_while_it_joins() -> None:
    """The response may come late, so a leave request is sent."""
    bench = Bench()
    words = bench.one.heartbeat(bench.now)
    assert words is not None
    bench.built(words)
    bench.one.leave(bench.now)
    assert isinstance(bench.step(), SendRequest)
    assert bench.built(words).member_epoch == -1
    bench.receives(ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.one.state is State.LEAVING


def test_a_member_that_is_fenced_while_it_leaves_ends() -> None:
    bench = Bench()
    bench.has_joined(0)
    bench.one.leave(bench.now)
    bench.step()
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    bench.receives(ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.one.heartbeat_at == math.inf
    bench.one.revoked(bench.now)
    assert bench.step() == LeftGroup()


def test_an_instance_id_of_its_own_earlier_membership_is_released() -> None:
    """The answer to the first request was lost: the coordinator takes the second for another member's."""
    bench = Bench(group_instance_id="static")
    words = bench.one.heartbeat(bench.now)
    assert words is not None
    assert bench.built(words).member_epoch == bench.built(words).member_epoch == 0
    bench.receives(ErrorCode.UNRELEASED_INSTANCE_ID)
    assert bench.heartbeat().member_epoch == -2
    bench.receives(epoch=-2)
    assert bench.heartbeat().member_epoch == 0
    bench.receives(ErrorCode.UNRELEASED_INSTANCE_ID)
    step = bench.step()
    assert isinstance(step, Failed)
    assert "group.instance.id" in str(step.error)


FATAL = [
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
]
KINDS: dict[ErrorCode | int, type[AioprodError]] = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedVersionError,
}


@pytest.mark.parametrize("topics", [{"clicks"}, {"clicks", "orders"}])
def test_topics_that_may_not_be_described(topics: set[str]) -> None:
    """Brokers answer for all of them at once, so of several none is named as the one."""
    error = member_error("g", "be in it", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topics=topics)
    assert isinstance(error, AuthorizationError)
    assert (error.resource_type, error.operation) == ("topic", "DESCRIBE")
    assert error.resource == ("clicks" if len(topics) == 1 else None)
    assert all(f"--topic {topic}" in str(error.hint) for topic in topics)


LOST = [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]


def in_state(state: State) -> Bench:
    """A member in that state, with a heartbeat on its way."""
    bench = Bench()
    if state is State.JOINING:
        bench.heartbeat()
        return bench
    bench.has_joined(0)
    bench.passes(INTERVAL_S)
    if state is State.STALE:
        bench.one.polled(bench.now - POLL_S)
    bench.heartbeat()
    if state is State.FENCED:
        bench.passes(SESSION_S)
        bench.step()
    elif state in (State.PREPARING_TO_LEAVE, State.LEAVING, State.LEFT):
        bench.one.leave(bench.now)
        bench.step()
    if state in (State.LEAVING, State.LEFT):
        bench.one.revoked(bench.now)
    if state is State.LEFT:
        bench.step()
        bench.one.request_failed(RequestTimedOutError("late"), bench.now)
        bench.step()
    assert bench.one.state is state
    return bench


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("code", [*ErrorCode, 9999], ids=str)
def test_every_code_in_every_state(state: State, code: ErrorCode | int) -> None:
    bench = in_state(state)
    owned = bench.one.owned
    bench.receives(code, given=[(CLICKS, (0,))] if code == NONE else None)
    known: dict[tuple[State, ErrorCode | int], State] = {
        (State.JOINING, NONE): State.MEMBER,
        (State.JOINING, ErrorCode.GROUP_ID_NOT_FOUND): State.PREPARING_TO_LEAVE,
        **{(State.MEMBER, lost): State.FENCED for lost in LOST},
    }
    is_retriable = not isinstance(code, ErrorCode) or code.retriable or code == ErrorCode.UNKNOWN_SERVER_ERROR
    if (state, code) in known:
        expected = known[state, code]
    elif state in (State.JOINING, State.MEMBER) and code != NONE and code not in LOST and not is_retriable:
        expected = State.PREPARING_TO_LEAVE
    else:
        expected = state
    assert bench.one.state is expected
    assert bench.one.owned == owned
    if code in FATAL and state is State.MEMBER:
        assert bench.step() == Revoke(tps("clicks", 0), is_lost=True)
        bench.one.revoked(bench.now)
        step = bench.step()
        assert isinstance(step, Failed)
        assert isinstance(step.error, KINDS.get(code, BrokerError))
        assert "'g'" in str(step.error)
    bench.step()


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_the_table_has_no_way_out_of_the_end(state: State, event: Event) -> None:
    target = TRANSITIONS.get((state, event))
    if state is State.LEFT:
        assert target in (None, State.LEFT)
    if event is Event.CLOSE:
        assert target in (State.PREPARING_TO_LEAVE, State.LEAVING, State.LEFT)


def test_brokers_that_do_not_offer_it() -> None:
    bench = Bench()
    bench.heartbeat()
    bench.one.heartbeat_failed(UnsupportedVersionError("Broker 1 lacks ConsumerGroupHeartbeat."), bench.now)
    step = bench.step()
    assert isinstance(step, Failed)
    assert isinstance(step.error, UnsupportedVersionError)
    assert "group.protocol=consumer" in str(step.error)
    assert "group.protocol=classic" in (step.error.hint or "")


def test_other_failures_end_it() -> None:
    bench = Bench()
    bench.has_joined(0)
    bench.passes(INTERVAL_S)
    bench.heartbeat()
    error = AuthorizationError("no")
    bench.one.heartbeat_failed(error, bench.now)
    assert bench.step() == Revoke(tps("clicks", 0), is_lost=True)
    bench.one.revoked(bench.now)
    assert bench.step() == Failed(error)
    assert "it has left the group" in repr(bench.one)
