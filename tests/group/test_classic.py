"""The classic protocol without I/O: the test plays the coordinator, the runner and the clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.errors import AuthorizationError, BrokerError, ErrorCode, RequestTimedOutError, UsageError
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
    """Its subscription in the present JoinGroup."""
    return decode_subscription(driver.sends(JoinGroupRequest).protocols[protocol].metadata)


def test_a_member_joins_and_gets_its_assignment() -> None:
    driver = Driver()
    assert driver.revokes() == ()
    assert driver.member.heartbeat_at == math.inf
    driver.gets_its_id("me")
    request = driver.sends(JoinGroupRequest)
    assert (request.member_id, request.session_timeout_ms, request.rebalance_timeout_ms) == ("me", 45_000, 300_000)
    assert [protocol.name for protocol in request.protocols] == ["cooperative-sticky", "range"]
    assert subscription_of(driver).topics == ("t",)
    assert driver.is_rebalancing()
    driver.receives_join(generation_id=5)
    assert driver.sends(SyncGroupRequest).assignments == ()
    driver.receives_sync([P0, P2])
    assert not driver.is_rebalancing()
    assert driver.adds() == (P0, P2)
    assert driver.member.owned == {P0, P2}
    assert driver.step() == Wait(math.inf)
    assert driver.member.metadata == GroupMetadata("g", 5, "me")


def test_an_empty_assignment_runs_the_callback() -> None:
    driver = Driver()
    driver.revokes()
    driver.receives_join()
    driver.member.response_received(SyncGroupResponse(assignment=b""), driver.now)
    assert driver.adds() == ()


def test_the_join_timeout_covers_the_rebalance_timeout() -> None:
    driver = Driver(max_poll_interval_ms=60_000)
    driver.revokes()
    assert driver.step() == SendRequest(driver.sends(JoinGroupRequest), 65.0)
    impatient = Driver(max_poll_interval_ms=1_000)
    impatient.revokes()
    assert impatient.step() == SendRequest(impatient.sends(JoinGroupRequest), 30.0)


# -- rebalances


def test_cooperative_members_keep_their_partitions_while_they_rejoin() -> None:
    driver = Driver()
    driver.join(P0, P1)
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.revokes() == ()
    assert driver.member.owned == {P0, P1}
    subscription = subscription_of(driver)
    assert (set(subscription.owned), subscription.generation) == ({P0, P1}, 1)
    driver.receives_join(generation_id=2)
    driver.receives_sync([P1, P2])
    assert driver.revokes() == (P0,)
    assert driver.adds() == (P2,)
    assert driver.member.owned == {P1, P2}
    # The revoked partition is for another member: it rejoins at once.
    assert driver.state() is State.STABLE
    assert driver.revokes() == ()
    driver.receives_join(generation_id=3)
    driver.receives_sync([P1, P2])
    assert driver.adds() == ()
    assert driver.step() == Wait(math.inf)


def test_eager_members_revoke_all_before_they_rejoin() -> None:
    driver = Driver([StickyAssignor()])
    driver.join(P0, P1, protocol_name="sticky")
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.revokes() == (P0, P1)
    assert not driver.member.owned
    subscription = subscription_of(driver)
    assert subscription.owned == ()
    assert decode_sticky(subscription.user_data or b"") == ([P0, P1], 1)
    driver.receives_join(generation_id=2, protocol_name="sticky")
    driver.receives_sync([P1])
    assert driver.adds() == (P1,)


def test_the_assignor_that_was_chosen_last_decides() -> None:
    driver = Driver()
    driver.join(P0, P1, protocol_name="range")
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.revokes() == (P0, P1)
    driver.receives_join(generation_id=2)
    driver.receives_sync([P0])
    driver.adds()
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.revokes() == ()


def test_a_member_without_the_cooperative_assignor_joins() -> None:
    """No member is assigned what another one owns; the owner that finds it missing revokes it, and rejoins."""
    driver = Driver()
    driver.join(P0, P1, P2, P3)
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.revokes()
    driver.leads({"a": Subscription(("t",))}, generation=2, protocol_name="range")
    assert driver.assigns(t=4) == {"a": (), "me": (P2, P3)}
    driver.receives_sync([P2, P3])
    assert driver.revokes() == (P0, P1)
    driver.adds()
    assert driver.revokes() == (P2, P3)
    driver.leads({"a": Subscription(("t",), generation=2)}, generation=3, protocol_name="range")
    assert driver.assigns(t=4) == {"a": (P0, P1), "me": (P2, P3)}


def test_a_follower_revokes_all_under_an_eager_leader() -> None:
    """All is revoked before SyncGroup: the partitions may be assigned to another member from then on."""
    driver = Driver()
    driver.join(P0, P1)
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.revokes()
    driver.receives_join(generation_id=2, protocol_name="range")
    assert driver.state() is State.REVOKING_ALL
    assert not driver.is_rebalancing()
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.revokes() == (P0, P1)
    assert driver.steps[-1] == Revoke((P0, P1))
    driver.receives_sync([P1])
    assert driver.adds() == (P1,)
    # The leader may have kept back what this member held.
    assert driver.revokes() == (P1,)
    driver.receives_join(generation_id=3, protocol_name="range")
    driver.receives_sync([P1])
    driver.adds()
    assert driver.step() == Wait(math.inf)


def test_a_new_subscription_makes_it_rejoin() -> None:
    driver = Driver()
    driver.join(P0)
    driver.member.subscribe(frozenset({"u"}), driver.now)
    assert driver.revokes() == (P0,)
    assert subscription_of(driver).topics == ("u",)
    # What changes meanwhile is for the next time.
    driver.member.subscribe(frozenset({"t", "u"}), driver.now)
    assert subscription_of(driver).topics == ("u",)
    driver.receives_join(generation_id=2)
    driver.receives_sync()
    driver.adds()
    driver.revokes()
    assert subscription_of(driver).topics == ("t", "u")


# -- leading


def test_the_leader_assigns_for_all_members() -> None:
    driver = Driver([RangeAssignor()])
    driver.revokes()
    others = {"you": Subscription(("t", "u")), "old": Subscription(("u",))}
    driver.leads(others, protocol_name="range")
    assert driver.step() == DescribeTopics(frozenset({"t", "u"}))
    shares = driver.assigns(t=2, u=2)
    assert shares == {"me": (P0,), "old": partitions(0, topic="u"), "you": (P1, *partitions(1, topic="u"))}


def test_the_leader_rejoins_when_the_partitions_change() -> None:
    driver = Driver()
    driver.revokes()
    driver.leads({"you": Subscription(("u",))})
    driver.assigns(t=2)
    driver.receives_sync([P0, P1])
    driver.adds()
    driver.member.topics_changed({"t": 2, "u": 0}, driver.now)
    assert driver.step() == Wait(math.inf)
    driver.member.topics_changed({"t": 2, "u": 1}, driver.now)
    assert driver.revokes() == ()
    assert driver.state() is State.JOINING


def test_partitions_created_while_the_leader_assigns_cause_the_next_rebalance() -> None:
    driver = Driver()
    driver.revokes()
    driver.leads({})
    driver.assigns(t=2)
    driver.member.topics_changed({"t": 3}, driver.now)
    driver.receives_sync([P0, P1])
    driver.adds()
    assert driver.revokes() == ()
    assert driver.state() is State.JOINING


def test_a_follower_does_not_rejoin_when_the_partitions_change() -> None:
    driver = Driver()
    driver.join(P0)
    driver.member.topics_changed({"t": 9}, driver.now)
    assert driver.step() == Wait(math.inf)


def test_a_leader_that_came_back_leaves_all_as_it_is() -> None:
    driver = Driver(group_instance_id="one")
    driver.revokes()
    driver.leads({"you": Subscription(("t",))}, skip_assignment=True)
    assert driver.assigns(t=2) == {}
    driver.receives_sync([P0])
    driver.adds()
    driver.member.topics_changed({"t": 3}, driver.now)
    assert driver.revokes() == ()


def test_the_leader_passes_instance_ids_to_the_assignor() -> None:
    driver = Driver([RangeAssignor()])
    driver.revokes()
    driver.leads({"zz": Subscription(("t",), group_instance_id="one")}, protocol_name="range")
    assert driver.assigns(t=1) == {"me": (), "zz": (P0,)}


class _Strange:
    name = "strange"

    def __init__(self, assign: Callable[[], Any]) -> None:
        self._assign = assign

    def assign(self, partitions: Any, members: Any) -> Any:
        return self._assign()


@pytest.mark.parametrize(
    ("assign", "text"),
    [
        (lambda: {"nobody": []}, "assigned partitions to 'nobody', which is not a member"),
        (lambda: 1 // 0, "Assignor 'strange' failed: ZeroDivisionError"),
    ],
)
def test_an_assignor_that_fails_ends_its_member(assign: Callable[[], Any], text: str) -> None:
    driver = Driver([_Strange(assign)])
    driver.revokes()
    driver.leads({}, protocol_name="strange")
    driver.member.topics_described({}, driver.now)
    assert isinstance(driver.step(), SendRequest)
    driver.left()
    step = driver.step()
    assert isinstance(step, Failed)
    with pytest.raises(UsageError, match=text):
        raise step.error


def test_members_whose_subscriptions_can_not_be_read_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver()
    driver.revokes()
    own = driver.sends(JoinGroupRequest).protocols[0].metadata
    rows = [JoinGroupResponseMember(member_id="me", metadata=own)]
    rows += [JoinGroupResponseMember(member_id=f"{name}\x1b", metadata=b"?") for name in "ab"]
    driver.receives_join(leader="me", members=tuple(rows))
    assert driver.assigns(t=2) == {"me": (P0, P1)}
    (line,) = caplog.messages
    assert line.startswith("Member of group 'g' assigns nothing to member 'a?': A member of the group sent")
    assert line.endswith(" Nor to 1 more.")


@pytest.mark.parametrize("fields", [{"generation_id": -1}, {"member_id": ""}])
def test_a_member_that_is_not_let_in_joins_again_after_a_backoff(fields: dict[str, Any]) -> None:
    driver = Driver()
    driver.revokes()
    driver.receives_join(**fields)
    assert driver.step() == Wait(driver.now + 0.1)
    driver.now += 0.1
    driver.receives_join()
    driver.sends(SyncGroupRequest)


def test_joins_without_a_heartbeat_between_them_wait_for_a_backoff() -> None:
    driver = Driver()
    driver.revokes()
    for number in range(1, 6):
        driver.receives_join(ErrorCode.MEMBER_ID_REQUIRED, member_id=f"{number}")
    driver.receives_join(ErrorCode.MEMBER_ID_REQUIRED, member_id="6")
    assert driver.step() == Wait(driver.now + 0.1)
    driver.now += 0.1
    driver.receives_join()
    driver.receives_sync([P0])
    driver.adds()
    driver.heartbeats()
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.revokes()
    driver.sends(JoinGroupRequest)


def test_an_assignment_that_can_not_be_read_is_an_empty_one_and_the_member_joins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver()
    driver.join(P0)
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.revokes()
    driver.receives_join(generation_id=2)
    driver.member.response_received(SyncGroupResponse(assignment=b"?"), driver.now)
    assert driver.revokes() == (P0,)
    assert driver.steps[-1] == Revoke((P0,), is_lost=False)
    assert driver.adds() == ()
    (line,) = caplog.messages
    assert line.startswith("Member of group 'g' is assigned nothing: A member of the group sent an invalid Consumer")
    assert driver.revokes() == ()
    assert driver.step() == Wait(driver.now + 0.1)
    driver.now += 0.1
    driver.receives_join(generation_id=3)
    driver.receives_sync([P0])
    assert driver.adds() == (P0,)
    assert driver.step() == Wait(math.inf)


# -- heartbeats


def test_heartbeats_pause_while_join_or_sync_is_pending() -> None:
    driver = Driver()
    driver.join(P0)
    request = driver.heartbeats()
    assert (request.generation_id, request.member_id) == (1, "me")
    assert driver.member.heartbeat_at == driver.now + 3.0
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.state() is State.STABLE
    assert isinstance(driver.step(), Revoke)
    # The user is still at work: the coordinator must not take the member for dead.
    assert driver.member.heartbeat_at == driver.now + 3.0
    driver.revokes()
    assert driver.member.heartbeat_at == math.inf
    driver.receives_join(generation_id=2)
    assert driver.member.heartbeat_at == math.inf
    driver.receives_sync([P0])
    assert driver.member.heartbeat_at == driver.now + 3.0


def test_an_answer_to_an_older_self_does_not_count() -> None:
    driver = Driver()
    driver.join(P0)
    driver.member.heartbeat(driver.now)
    driver.member.subscribe(frozenset({"t", "u"}), driver.now)
    driver.revokes()
    driver.receives_join(generation_id=2)
    driver.member.heartbeat_response_received(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION), driver.now)
    driver.receives_sync([P0])
    driver.adds()
    assert driver.member.owned == {P0}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, 31_000])
def test_codes_that_do_not_say_what_is_wrong_end_no_member(
    code: ErrorCode | int, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver()
    driver.revokes()
    driver.receives_join(code)
    driver.now += 0.1
    driver.receives_join()
    driver.receives_sync([P0], code)
    assert driver.revokes() == ()
    assert driver.step() == Wait(driver.now + 0.1)
    driver.now += 0.1
    driver.receives_join()
    driver.receives_sync([P0])
    driver.adds()
    driver.heartbeats(code)
    assert driver.member.heartbeat_at == driver.now + 0.1
    driver.heartbeats()
    assert driver.step() == Wait(math.inf)
    assert driver.member.owned == {P0}
    assert caplog.messages == [
        f"Member of group 'g' tries again: A member of group 'g' could not {purpose}: "
        f"the coordinator answered {ErrorCode.name_of(code)}."
        for purpose in ("join the group", "get its assignment", "stay in the group")
    ]


def test_a_heartbeat_without_an_answer_is_sent_again_soon() -> None:
    driver = Driver()
    driver.join(P0)
    driver.now = driver.member.heartbeat_at
    driver.member.heartbeat(driver.now)
    driver.member.heartbeat_failed(LATE, driver.now)
    assert driver.member.heartbeat_at == driver.now + 0.1
    driver.member.heartbeat_failed(AuthorizationError("No."), driver.now)
    assert driver.revokes() == (P0,)


def test_max_poll_interval_loses_all_partitions() -> None:
    driver = Driver(max_poll_interval_ms=10_000)
    driver.join(P0)
    driver.member.polled(driver.now)
    for _ in range(3):
        driver.heartbeats()
    assert driver.member.heartbeat_at == driver.now + 1.0
    driver.now += 1.0
    request = driver.member.heartbeat(driver.now)
    assert request is not None
    assert request.NAME == "LeaveGroup"
    assert driver.step() == Revoke((P0,), is_lost=True)
    assert driver.member.metadata == GroupMetadata("g")
    driver.revokes()
    # It does not join again before its user is back.
    assert driver.step() == Wait(math.inf)
    driver.member.polled(driver.now)
    driver.revokes()
    assert subscription_of(driver).owned == ()


def test_max_poll_interval_sends_no_leave_group_for_a_static_member() -> None:
    driver = Driver(max_poll_interval_ms=10_000, group_instance_id="one")
    driver.revokes()
    driver.receives_join()
    driver.receives_sync([P0])
    driver.adds()
    driver.now += 10.0
    assert driver.member.heartbeat(driver.now) is None
    assert driver.step() == Revoke((P0,), is_lost=True)


# -- the end


def test_a_leaving_member_revokes_all_and_sends_leave_group() -> None:
    driver = Driver()
    driver.join(P0)
    driver.member.leave(driver.now)
    assert driver.revokes() == (P0,)
    assert driver.left().members[0].member_id == "me"
    assert driver.step() == LeftGroup()
    driver.member.leave(driver.now)
    assert driver.step() == LeftGroup()


def test_a_member_leaves_after_the_rebalance() -> None:
    """Its last commit has to be of the generation that the coordinator is in."""
    driver = reached(State.JOINING)
    driver.member.leave(driver.now)
    driver.receives_join(generation_id=2)
    driver.receives_sync([P0])
    assert driver.revokes() == (P0,)
    assert driver.member.metadata.generation_id == 2
    driver.left()
    assert driver.step() == LeftGroup()


def test_a_member_leaves_under_the_id_of_a_pending_join() -> None:
    """Else the group would wait for it in the next rebalance, until its session is over."""
    driver = Driver()
    driver.revokes()
    driver.sends(JoinGroupRequest)
    driver.member.leave(driver.now)
    driver.gets_its_id("me")
    assert driver.left().members[0].member_id == "me"
    assert driver.step() == LeftGroup()


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_leaves_does_not_join_once_more(code: ErrorCode) -> None:
    driver = reached(State.COMPLETING_REBALANCE)
    driver.member.leave(driver.now)
    driver.receives_sync(code=code)
    assert driver.revokes() == (P0,)
    assert driver.state() is State.LEAVING


def test_old_brokers_let_one_member_leave_at_a_time() -> None:
    driver = Driver()
    driver.join(P0)
    driver.member.leave(driver.now)
    driver.revokes()
    step = driver.step()
    assert isinstance(step, SendRequest)
    assert isinstance(step.request, ByVersion)
    assert step.request.build(2) == LeaveGroupRequest(group_id="g", member_id="me")


def test_a_static_member_sends_no_leave_group() -> None:
    driver = Driver(group_instance_id="one")
    driver.revokes()
    driver.receives_join()
    driver.receives_sync([P0])
    driver.adds()
    driver.member.leave(driver.now)
    assert driver.revokes() == (P0,)
    assert driver.step() == LeftGroup()


def test_close_before_joining_sends_nothing() -> None:
    driver = Driver()
    driver.member.leave(driver.now)
    assert driver.step() == LeftGroup()


def test_partitions_added_while_it_closes_are_revoked() -> None:
    driver = Driver()
    driver.revokes()
    driver.receives_join()
    driver.receives_sync([P0])
    assert isinstance(driver.step(), Assign)
    driver.member.leave(driver.now)
    driver.member.assigned(driver.now)
    assert driver.revokes() == (P0,)


def test_a_loss_during_a_revocation_covers_the_rest() -> None:
    driver = Driver()
    driver.join(P0, P1)
    driver.member.heartbeat(driver.now)
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.revokes()
    driver.receives_join(generation_id=2)
    driver.receives_sync([P1])
    assert driver.step() == Revoke((P0,))
    driver.heartbeats(ErrorCode.UNKNOWN_MEMBER_ID)
    driver.member.revoked(driver.now)
    assert driver.step() == Revoke((P1,), is_lost=True)


# -- what the coordinator says, in every state


def reached(state: State) -> Driver:
    """A member in that state; it has been in the group before, and holds P0 where it may."""
    driver = Driver(max_poll_interval_ms=300_000)
    if state is State.PREPARING_REBALANCE:
        driver.join(P0)
        driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
        driver.continues()
        assert driver.state() is state
        return driver
    driver.join(P0)
    if state is State.STABLE:
        return driver
    if state in (State.PREPARING_TO_LEAVE, State.LEAVING, State.LEFT):
        driver.member.leave(driver.now)
        if state is not State.PREPARING_TO_LEAVE:
            driver.revokes()
            driver.continues()
        if state is State.LEFT:
            driver.left()
            driver.continues()
        return driver
    driver.heartbeats(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.revokes()
    if state is State.JOINING:
        return driver
    if state is State.ASSIGNING:
        driver.leads({}, generation=2)
        return driver
    if state is State.REVOKING_ALL:
        driver.receives_join(generation_id=2, protocol_name="range")
        return driver
    driver.receives_join(generation_id=2)
    if state is not State.COMPLETING_REBALANCE:
        driver.receives_sync([P1])
    if state is State.ADDING_PARTITIONS:
        driver.revokes()
        driver.continues()
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
            assert driver.revokes() == tuple(sorted(before))
        driver.left()
        assert isinstance(driver.step(), Failed)
    else:
        assert driver.state() is state


@pytest.mark.parametrize("code", [*ErrorCode, 31_000])
def test_every_answer_to_join_group_is_understood(code: ErrorCode | int) -> None:
    driver = reached(State.JOINING)
    driver.receives_join(code, generation_id=2, member_id="you" if code == ErrorCode.MEMBER_ID_REQUIRED else "me")
    meaning = meaning_of(Subject.JOIN, code)
    if meaning is Meaning.DONE:
        assert driver.state() is State.COMPLETING_REBALANCE
    elif meaning is Meaning.MEMBER_ID_GIVEN:
        assert driver.sends(JoinGroupRequest).member_id == "you"
    elif meaning is Meaning.RETRY:
        assert driver.step() == Wait(driver.now + 0.1)
        driver.now += 0.1
        driver.sends(JoinGroupRequest)
    elif meaning is Meaning.FATAL:
        assert driver.revokes() == (P0,)
        assert driver.steps[-1] == Revoke((P0,), is_lost=True)
        driver.left()
        assert isinstance(driver.step(), Failed)
    else:
        assert driver.revokes() == (P0,)
        assert driver.steps[-1] == Revoke((P0,), is_lost=True)
        assert driver.sends(JoinGroupRequest).member_id == ("me" if meaning is Meaning.STALE_GENERATION else "")


@pytest.mark.parametrize("code", [*ErrorCode, 31_000])
def test_every_answer_to_sync_group_is_understood(code: ErrorCode | int) -> None:
    driver = reached(State.COMPLETING_REBALANCE)
    driver.receives_sync([P0], code)
    meaning = meaning_of(Subject.SYNC, code)
    if meaning is Meaning.DONE:
        assert driver.adds() == ()
    elif meaning is Meaning.REJOIN:
        assert driver.revokes() == ()
        driver.now += 0.1 if ErrorCode.is_unclear(code) else 0.0
        assert driver.sends(JoinGroupRequest).member_id == "me"
        assert driver.member.owned == {P0}
    elif meaning is Meaning.FATAL:
        assert driver.revokes() == (P0,)
        driver.left()
        assert isinstance(driver.step(), Failed)
    else:
        assert driver.revokes() == (P0,)
        assert driver.steps[-1] == Revoke((P0,), is_lost=True)


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}, {"protocol_name": None}], ids=str
)
def test_a_group_of_another_protocol_type_is_an_error(fields: dict[str, Any]) -> None:
    driver = reached(State.JOINING)
    driver.receives_join(**fields)
    driver.revokes()
    driver.left()
    step = driver.step()
    assert isinstance(step, Failed)
    assert isinstance(step.error, BrokerError)
    assert step.error.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "range"}], ids=str)
def test_an_assignment_of_another_protocol_is_an_error(fields: dict[str, Any]) -> None:
    driver = reached(State.COMPLETING_REBALANCE)
    driver.receives_sync([P0], **fields)
    driver.revokes()
    driver.left()
    assert isinstance(driver.step(), Failed)


@pytest.mark.parametrize("state", [State.JOINING, State.COMPLETING_REBALANCE, State.LEAVING])
def test_a_request_without_an_answer_is_retried(state: State) -> None:
    driver = reached(state)
    driver.continues()
    driver.member.request_failed(LATE, driver.now)
    if state is State.LEAVING:
        assert driver.step() == LeftGroup()
        return
    if state is State.COMPLETING_REBALANCE:
        driver.revokes()
    else:
        assert driver.step() == Wait(driver.now + 0.1)
        driver.now += 0.1
    assert driver.sends(JoinGroupRequest).member_id == "me"
    assert driver.member.owned == {P0}


@pytest.mark.parametrize("state", [State.JOINING, State.COMPLETING_REBALANCE])
def test_an_authorization_error_ends_the_member(state: State) -> None:
    driver = reached(state)
    driver.continues()
    error = AuthorizationError("No.", resource="g")
    driver.member.request_failed(error, driver.now)
    assert driver.revokes() == (P0,)
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
            driver.revokes()
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
