"""The classic protocol without I/O: the test plays the coordinator, the runner and the clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.errors import AuthorizationError, BrokerError, ErrorCode, ProtocolError, RequestTimedOutError, UsageError
from aioprod.group.assignors import (
    RangeAssignor,
    StickyAssignor,
    Subscription,
)
from aioprod.group.assignors.sticky.user_data import decode_sticky
from aioprod.group.classic.states import TRANSITIONS, Event, Meaning, State, Subject, diagram, meaning_of
from aioprod.group.membership import Assign, DescribeTopics, Failed, LeftGroup, Revoke, SendRequest, Wait
from aioprod.group.subscription_codec import decode_subscription
from aioprod.messages import (
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from aioprod.messages.join_group import JoinGroupResponseMember
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata
from tests.support.classic import Driver, partitions

P0, P1, P2, P3 = partitions(0, 1, 2, 3)
LATE = RequestTimedOutError("It took too long.")


def subscription_of(driver: Driver, protocol: int = 0) -> Subscription:
    """What it tells the leader now."""
    return decode_subscription(driver.asks(JoinGroupRequest).protocols[protocol].metadata)


def test_a_member_joins_and_gets_its_share() -> None:
    driver = Driver()
    assert driver.gives_up() == ()
    assert driver.member.heartbeat_at == math.inf
    driver.is_told_its_id("me")
    request = driver.asks(JoinGroupRequest)
    assert (request.member_id, request.session_timeout_ms, request.rebalance_timeout_ms) == ("me", 45_000, 300_000)
    assert [protocol.name for protocol in request.protocols] == ["cooperative-sticky", "range"]
    assert subscription_of(driver).topics == ("t",)
    assert driver.is_rebalancing()
    driver.join_answered(generation_id=5)
    assert driver.asks(SyncGroupRequest).assignments == ()
    driver.sync_answered([P0, P2])
    assert not driver.is_rebalancing()
    assert driver.takes() == (P0, P2)
    assert driver.member.owned == {P0, P2}
    assert driver.step() == Wait(math.inf)
    assert driver.member.metadata == GroupMetadata("g", 5, "me")


def test_who_gets_nothing_is_told_so() -> None:
    driver = Driver()
    driver.gives_up()
    driver.join_answered()
    driver.member.response_received(SyncGroupResponse(assignment=b""), driver.now)
    assert driver.takes() == ()


def test_joining_takes_as_long_as_the_others_need() -> None:
    driver = Driver(max_poll_interval_ms=60_000)
    driver.gives_up()
    assert driver.step() == SendRequest(driver.asks(JoinGroupRequest), 65.0)
    impatient = Driver(max_poll_interval_ms=1_000)
    impatient.gives_up()
    assert impatient.step() == SendRequest(impatient.asks(JoinGroupRequest), 30.0)


# -- rebalances


def test_cooperative_members_keep_what_they_have_while_they_join_anew() -> None:
    driver = Driver()
    driver.settle(P0, P1)
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.gives_up() == ()
    assert driver.member.owned == {P0, P1}
    told = subscription_of(driver)
    assert (set(told.owned), told.generation) == ({P0, P1}, 1)
    driver.join_answered(generation_id=2)
    driver.sync_answered([P1, P2])
    assert driver.gives_up() == (P0,)
    assert driver.takes() == (P2,)
    assert driver.member.owned == {P1, P2}
    # What it gave up is to be given to somebody else: one more round, at once.
    assert driver.state() is State.STABLE
    assert driver.gives_up() == ()
    driver.join_answered(generation_id=3)
    driver.sync_answered([P1, P2])
    assert driver.takes() == ()
    assert driver.step() == Wait(math.inf)


def test_eager_members_give_all_up_before_they_join_anew() -> None:
    driver = Driver([StickyAssignor()])
    driver.settle(P0, P1, protocol_name="sticky")
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.gives_up() == (P0, P1)
    assert not driver.member.owned
    told = subscription_of(driver)
    assert told.owned == ()
    assert decode_sticky(told.user_data or b"") == ([P0, P1], 1)
    driver.join_answered(generation_id=2, protocol_name="sticky")
    driver.sync_answered([P1])
    assert driver.takes() == (P1,)


def test_the_assignor_that_was_chosen_last_decides() -> None:
    driver = Driver()
    driver.settle(P0, P1, protocol_name="range")
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.gives_up() == (P0, P1)
    driver.join_answered(generation_id=2)
    driver.sync_answered([P0])
    driver.takes()
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.gives_up() == ()


def test_a_member_without_the_cooperative_assignor_comes_in() -> None:
    """Nobody is given what another one holds; who finds something missing gives it up, and joins for it once more."""
    driver = Driver()
    driver.settle(P0, P1, P2, P3)
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.gives_up()
    driver.leads({"a": Subscription(("t",))}, generation=2, protocol_name="range")
    assert driver.divides(t=4) == {"a": (), "me": (P2, P3)}
    driver.sync_answered([P2, P3])
    assert driver.gives_up() == (P0, P1)
    driver.takes()
    assert driver.gives_up() == (P2, P3)
    driver.leads({"a": Subscription(("t",), generation=2)}, generation=3, protocol_name="range")
    assert driver.divides(t=4) == {"a": (P0, P1), "me": (P2, P3)}


def test_who_follows_does_not_know_what_an_eager_leader_does() -> None:
    """All is given up before it asks for its share: from then on it may be another one's."""
    driver = Driver()
    driver.settle(P0, P1)
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.gives_up()
    driver.join_answered(generation_id=2, protocol_name="range")
    assert driver.state() is State.REVOKING_ALL
    assert not driver.is_rebalancing()
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.gives_up() == (P0, P1)
    assert driver.told[-1] == Revoke((P0, P1))
    driver.sync_answered([P1])
    assert driver.takes() == (P1,)
    # The leader may have kept back what this member held.
    assert driver.gives_up() == (P1,)
    driver.join_answered(generation_id=3, protocol_name="range")
    driver.sync_answered([P1])
    driver.takes()
    assert driver.step() == Wait(math.inf)


def test_a_new_subscription_is_a_reason_to_join_anew() -> None:
    driver = Driver()
    driver.settle(P0)
    driver.member.subscribe(frozenset({"u"}), driver.now)
    assert driver.gives_up() == (P0,)
    assert subscription_of(driver).topics == ("u",)
    # What changes meanwhile is for the next time.
    driver.member.subscribe(frozenset({"t", "u"}), driver.now)
    assert subscription_of(driver).topics == ("u",)
    driver.join_answered(generation_id=2)
    driver.sync_answered()
    driver.takes()
    driver.gives_up()
    assert subscription_of(driver).topics == ("t", "u")


# -- leading


def test_the_leader_divides_for_all() -> None:
    driver = Driver([RangeAssignor()])
    driver.gives_up()
    others = {"you": Subscription(("t", "u")), "old": Subscription(("u",))}
    driver.leads(others, protocol_name="range")
    assert driver.step() == DescribeTopics(frozenset({"t", "u"}))
    shares = driver.divides(t=2, u=2)
    assert shares == {"me": (P0,), "old": partitions(0, topic="u"), "you": (P1, *partitions(1, topic="u"))}


def test_the_leader_divides_anew_when_the_partitions_change() -> None:
    driver = Driver()
    driver.gives_up()
    driver.leads({"you": Subscription(("u",))})
    driver.divides(t=2)
    driver.sync_answered([P0, P1])
    driver.takes()
    driver.member.topics_changed({"t": 2, "u": 0}, driver.now)
    assert driver.step() == Wait(math.inf)
    driver.member.topics_changed({"t": 2, "u": 1}, driver.now)
    assert driver.gives_up() == ()
    assert driver.state() is State.JOINING


def test_partitions_that_come_while_the_leader_divides_are_divided_next() -> None:
    driver = Driver()
    driver.gives_up()
    driver.leads({})
    driver.divides(t=2)
    driver.member.topics_changed({"t": 3}, driver.now)
    driver.sync_answered([P0, P1])
    driver.takes()
    assert driver.gives_up() == ()
    assert driver.state() is State.JOINING


def test_who_follows_leaves_that_to_the_leader() -> None:
    driver = Driver()
    driver.settle(P0)
    driver.member.topics_changed({"t": 9}, driver.now)
    assert driver.step() == Wait(math.inf)


def test_a_leader_that_came_back_leaves_all_as_it_is() -> None:
    driver = Driver(group_instance_id="one")
    driver.gives_up()
    driver.leads({"you": Subscription(("t",))}, skip_assignment=True)
    assert driver.divides(t=2) == {}
    driver.sync_answered([P0])
    driver.takes()
    driver.member.topics_changed({"t": 3}, driver.now)
    assert driver.gives_up() == ()


def test_the_leader_tells_static_members_apart() -> None:
    driver = Driver([RangeAssignor()])
    driver.gives_up()
    driver.leads({"zz": Subscription(("t",), group_instance_id="one")}, protocol_name="range")
    assert driver.divides(t=1) == {"me": (), "zz": (P0,)}


class _Strange:
    name = "strange"

    def __init__(self, assign: Callable[[], Any]) -> None:
        self._assign = assign

    def assign(self, partitions: Any, members: Any) -> Any:
        return self._assign()


@pytest.mark.parametrize(
    ("assign", "text"),
    [
        (lambda: {"nobody": []}, "gives partitions to 'nobody', which is no member"),
        (lambda: 1 // 0, "Assignor 'strange' failed: ZeroDivisionError"),
    ],
)
def test_an_assignor_that_fails_ends_its_member(assign: Callable[[], Any], text: str) -> None:
    driver = Driver([_Strange(assign)])
    driver.gives_up()
    driver.leads({}, protocol_name="strange")
    driver.member.topics_described({}, driver.now)
    assert isinstance(driver.step(), SendRequest)
    driver.left()
    step = driver.step()
    assert isinstance(step, Failed)
    with pytest.raises(UsageError, match=text):
        raise step.error


def test_a_leader_that_can_not_read_what_a_member_says_ends() -> None:
    driver = Driver()
    driver.gives_up()
    rows = (JoinGroupResponseMember(member_id="you", metadata=b"?"),)
    driver.join_answered(leader="me", members=rows)
    driver.left()
    step = driver.step()
    assert isinstance(step, Failed)
    assert isinstance(step.error, ProtocolError)


def test_an_assignment_that_can_not_be_read_ends_the_member() -> None:
    driver = Driver()
    driver.gives_up()
    driver.join_answered()
    driver.member.response_received(SyncGroupResponse(assignment=b"?"), driver.now)
    driver.left()
    assert isinstance(driver.step(), Failed)


# -- heartbeats


def test_heartbeats_go_on_but_while_it_waits_for_the_others() -> None:
    driver = Driver()
    driver.settle(P0)
    request = driver.beats()
    assert (request.generation_id, request.member_id) == (1, "me")
    assert driver.member.heartbeat_at == driver.now + 3.0
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.state() is State.STABLE
    assert isinstance(driver.step(), Revoke)
    # The user is still at work: the coordinator must not take the member for dead.
    assert driver.member.heartbeat_at == driver.now + 3.0
    driver.gives_up()
    assert driver.member.heartbeat_at == math.inf
    driver.join_answered(generation_id=2)
    assert driver.member.heartbeat_at == math.inf
    driver.sync_answered([P0])
    assert driver.member.heartbeat_at == driver.now + 3.0


def test_an_answer_to_an_older_self_does_not_count() -> None:
    driver = Driver()
    driver.settle(P0)
    driver.member.heartbeat(driver.now)
    driver.member.subscribe(frozenset({"t", "u"}), driver.now)
    driver.gives_up()
    driver.join_answered(generation_id=2)
    driver.member.heartbeat_response_received(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION), driver.now)
    driver.sync_answered([P0])
    driver.takes()
    assert driver.member.owned == {P0}


def test_a_heartbeat_without_an_answer_is_sent_again_soon() -> None:
    driver = Driver()
    driver.settle(P0)
    driver.now = driver.member.heartbeat_at
    driver.member.heartbeat(driver.now)
    driver.member.heartbeat_failed(LATE, driver.now)
    assert driver.member.heartbeat_at == driver.now + 0.1
    driver.member.heartbeat_failed(AuthorizationError("No."), driver.now)
    assert driver.gives_up() == (P0,)


def test_a_user_who_stays_away_loses_everything() -> None:
    driver = Driver(max_poll_interval_ms=10_000)
    driver.settle(P0)
    driver.member.polled(driver.now)
    for _ in range(3):
        driver.beats()
    assert driver.member.heartbeat_at == driver.now + 1.0
    driver.now += 1.0
    farewell = driver.member.heartbeat(driver.now)
    assert farewell is not None
    assert farewell.NAME == "LeaveGroup"
    assert driver.step() == Revoke((P0,), is_lost=True)
    assert driver.member.metadata == GroupMetadata("g")
    driver.gives_up()
    # It does not join again before its user is back.
    assert driver.step() == Wait(math.inf)
    driver.member.polled(driver.now)
    driver.gives_up()
    assert subscription_of(driver).owned == ()


def test_a_static_member_whose_user_stays_away_goes_without_a_word() -> None:
    driver = Driver(max_poll_interval_ms=10_000, group_instance_id="one")
    driver.gives_up()
    driver.join_answered()
    driver.sync_answered([P0])
    driver.takes()
    driver.now += 10.0
    assert driver.member.heartbeat(driver.now) is None
    assert driver.step() == Revoke((P0,), is_lost=True)


# -- the end


def test_a_member_that_leaves_gives_up_and_says_so() -> None:
    driver = Driver()
    driver.settle(P0)
    driver.member.leave(driver.now)
    assert driver.gives_up() == (P0,)
    assert driver.left().members[0].member_id == "me"
    assert driver.step() == LeftGroup()
    driver.member.leave(driver.now)
    assert driver.step() == LeftGroup()


def test_a_member_leaves_after_the_rebalance_that_it_takes_part_in() -> None:
    """Its last commit has to be of the generation that the coordinator is in."""
    driver = reached(State.JOINING)
    driver.member.leave(driver.now)
    driver.join_answered(generation_id=2)
    driver.sync_answered([P0])
    assert driver.gives_up() == (P0,)
    assert driver.member.metadata.generation_id == 2
    driver.left()
    assert driver.step() == LeftGroup()


def test_a_member_leaves_under_the_id_that_it_is_just_given() -> None:
    """Else the group would wait for it in the next rebalance, until its session is over."""
    driver = Driver()
    driver.gives_up()
    driver.asks(JoinGroupRequest)
    driver.member.leave(driver.now)
    driver.is_told_its_id("me")
    assert driver.left().members[0].member_id == "me"
    assert driver.step() == LeftGroup()


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_leaves_does_not_join_once_more(code: ErrorCode) -> None:
    driver = reached(State.COMPLETING_REBALANCE)
    driver.member.leave(driver.now)
    driver.sync_answered(code=code)
    assert driver.gives_up() == (P0,)
    assert driver.state() is State.LEAVING


def test_old_brokers_let_one_member_leave_at_a_time() -> None:
    driver = Driver()
    driver.settle(P0)
    driver.member.leave(driver.now)
    driver.gives_up()
    step = driver.step()
    assert isinstance(step, SendRequest)
    assert isinstance(step.request, ByVersion)
    assert step.request.build(2) == LeaveGroupRequest(group_id="g", member_id="me")


def test_a_static_member_goes_without_telling() -> None:
    driver = Driver(group_instance_id="one")
    driver.gives_up()
    driver.join_answered()
    driver.sync_answered([P0])
    driver.takes()
    driver.member.leave(driver.now)
    assert driver.gives_up() == (P0,)
    assert driver.step() == LeftGroup()


def test_who_never_was_a_member_just_goes() -> None:
    driver = Driver()
    driver.member.leave(driver.now)
    assert driver.step() == LeftGroup()


def test_what_is_taken_while_the_end_comes_is_given_up() -> None:
    driver = Driver()
    driver.gives_up()
    driver.join_answered()
    driver.sync_answered([P0])
    assert isinstance(driver.step(), Assign)
    driver.member.leave(driver.now)
    driver.member.assigned(driver.now)
    assert driver.gives_up() == (P0,)


def test_a_loss_while_it_gives_up_is_told_of_the_rest() -> None:
    driver = Driver()
    driver.settle(P0, P1)
    driver.member.heartbeat(driver.now)
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.gives_up()
    driver.join_answered(generation_id=2)
    driver.sync_answered([P1])
    assert driver.step() == Revoke((P0,))
    driver.beats(ErrorCode.UNKNOWN_MEMBER_ID)
    driver.member.revoked(driver.now)
    assert driver.step() == Revoke((P1,), is_lost=True)


# -- what the coordinator says, in every state


def reached(state: State) -> Driver:
    """A member in that state; it has been in the group before, and holds P0 where it may."""
    driver = Driver(max_poll_interval_ms=300_000)
    if state is State.PREPARING_REBALANCE:
        driver.settle(P0)
        driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
        driver.goes_on()
        assert driver.state() is state
        return driver
    driver.settle(P0)
    if state is State.STABLE:
        return driver
    if state in (State.PREPARING_TO_LEAVE, State.LEAVING, State.LEFT):
        driver.member.leave(driver.now)
        if state is not State.PREPARING_TO_LEAVE:
            driver.gives_up()
            driver.goes_on()
        if state is State.LEFT:
            driver.left()
            driver.goes_on()
        return driver
    driver.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.gives_up()
    if state is State.JOINING:
        return driver
    if state is State.ASSIGNING:
        driver.leads({}, generation=2)
        return driver
    if state is State.REVOKING_ALL:
        driver.join_answered(generation_id=2, protocol_name="range")
        return driver
    driver.join_answered(generation_id=2)
    if state is not State.COMPLETING_REBALANCE:
        driver.sync_answered([P1])
    if state is State.ADDING_PARTITIONS:
        driver.gives_up()
        driver.goes_on()
    assert driver.state() is state
    return driver


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("code", [*ErrorCode, 31_000])
def test_every_answer_to_a_heartbeat_is_understood_in_every_state(state: State, code: ErrorCode | int) -> None:
    driver = reached(state)
    driver.member.heartbeat(driver.now)
    before = driver.member.owned
    driver.member.heartbeat_response_received(HeartbeatResponse(error_code=code), driver.now)
    meaning = meaning_of(Subject.HEARTBEAT, code)
    if state in (State.PREPARING_TO_LEAVE, State.LEAVING, State.LEFT):
        assert driver.state() is state
    elif meaning in (Meaning.STALE_GENERATION, Meaning.UNKNOWN_MEMBER):
        assert driver.state() is State.PREPARING_REBALANCE
        assert driver.member.metadata == GroupMetadata("g", -1, "me" if meaning is Meaning.STALE_GENERATION else "")
        assert driver.step() == Revoke(tuple(sorted(before)), is_lost=True)
    elif meaning is Meaning.FATAL:
        assert driver.state() is State.PREPARING_TO_LEAVE
        if before:
            assert driver.gives_up() == tuple(sorted(before))
        driver.left()
        assert isinstance(driver.step(), Failed)
    else:
        assert driver.state() is state


@pytest.mark.parametrize("code", [*ErrorCode, 31_000])
def test_every_answer_to_a_request_to_join_is_understood(code: ErrorCode | int) -> None:
    driver = reached(State.JOINING)
    driver.join_answered(code, generation_id=2, member_id="you" if code == ErrorCode.MEMBER_ID_REQUIRED else "me")
    meaning = meaning_of(Subject.JOIN, code)
    if meaning is Meaning.DONE:
        assert driver.state() is State.COMPLETING_REBALANCE
    elif meaning is Meaning.MEMBER_ID_GIVEN:
        assert driver.asks(JoinGroupRequest).member_id == "you"
    elif meaning is Meaning.RETRY:
        assert driver.step() == Wait(driver.now + 0.1)
        driver.now += 0.1
        driver.asks(JoinGroupRequest)
    elif meaning is Meaning.FATAL:
        assert driver.gives_up() == (P0,)
        assert driver.told[-1] == Revoke((P0,), is_lost=True)
        driver.left()
        assert isinstance(driver.step(), Failed)
    else:
        assert driver.gives_up() == (P0,)
        assert driver.told[-1] == Revoke((P0,), is_lost=True)
        assert driver.asks(JoinGroupRequest).member_id == ("me" if meaning is Meaning.STALE_GENERATION else "")


@pytest.mark.parametrize("code", [*ErrorCode, 31_000])
def test_every_answer_to_a_request_for_the_share_is_understood(code: ErrorCode | int) -> None:
    driver = reached(State.COMPLETING_REBALANCE)
    driver.sync_answered([P0], code)
    meaning = meaning_of(Subject.SYNC, code)
    if meaning is Meaning.DONE:
        assert driver.takes() == ()
    elif meaning is Meaning.REJOIN:
        assert driver.gives_up() == ()
        assert driver.asks(JoinGroupRequest).member_id == "me"
        assert driver.member.owned == {P0}
    elif meaning is Meaning.FATAL:
        assert driver.gives_up() == (P0,)
        driver.left()
        assert isinstance(driver.step(), Failed)
    else:
        assert driver.gives_up() == (P0,)
        assert driver.told[-1] == Revoke((P0,), is_lost=True)


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}, {"protocol_name": None}], ids=str
)
def test_a_group_that_is_no_group_of_consumers_is_refused(fields: dict[str, Any]) -> None:
    driver = reached(State.JOINING)
    driver.join_answered(**fields)
    driver.gives_up()
    driver.left()
    step = driver.step()
    assert isinstance(step, Failed)
    assert isinstance(step.error, BrokerError)
    assert step.error.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "range"}], ids=str)
def test_a_share_of_another_protocol_is_refused(fields: dict[str, Any]) -> None:
    driver = reached(State.COMPLETING_REBALANCE)
    driver.sync_answered([P0], **fields)
    driver.gives_up()
    driver.left()
    assert isinstance(driver.step(), Failed)


@pytest.mark.parametrize("state", [State.JOINING, State.COMPLETING_REBALANCE, State.LEAVING])
def test_a_coordinator_that_does_not_answer_is_asked_again(state: State) -> None:
    driver = reached(state)
    driver.goes_on()
    driver.member.request_failed(LATE, driver.now)
    if state is State.LEAVING:
        assert driver.step() == LeftGroup()
        return
    if state is State.COMPLETING_REBALANCE:
        driver.gives_up()
    else:
        assert driver.step() == Wait(driver.now + 0.1)
        driver.now += 0.1
    assert driver.asks(JoinGroupRequest).member_id == "me"
    assert driver.member.owned == {P0}


@pytest.mark.parametrize("state", [State.JOINING, State.COMPLETING_REBALANCE])
def test_who_is_not_allowed_to_join_ends(state: State) -> None:
    driver = reached(state)
    driver.goes_on()
    error = AuthorizationError("No.", resource="g")
    driver.member.request_failed(error, driver.now)
    assert driver.gives_up() == (P0,)
    driver.left()
    assert driver.step() == Failed(error)


@pytest.mark.parametrize("state", list(State))
def test_it_can_leave_from_every_state(state: State) -> None:
    driver = reached(state)
    driver.member.leave(driver.now)
    if state in (State.JOINING, State.ASSIGNING, State.COMPLETING_REBALANCE):
        # It may wait for the end of the rebalance no longer.
        driver.member.leave(driver.now)
    while not isinstance(driver.step(), LeftGroup):
        if isinstance(driver.step(), Revoke):
            driver.gives_up()
        else:
            driver.left()
    assert not driver.member.owned


# -- the table


@pytest.mark.parametrize("state", list(State))
def test_every_state_can_be_left_but_the_last(state: State) -> None:
    targets = {target for (start, _), target in TRANSITIONS.items() if start is state}
    assert (targets <= {state}) == (state is State.LEFT)


def test_every_state_can_be_reached() -> None:
    found = {State.PREPARING_REBALANCE}
    while more := {target for (state, _), target in TRANSITIONS.items() if state in found} - found:
        found |= more
    assert found == set(State)


def test_the_diagram_shows_every_state() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert all(any(state.name in line for line in lines) for state in State)
    assert {event for _, event in TRANSITIONS} == set(Event)
