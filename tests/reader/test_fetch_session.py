"""Fetch sessions: what a request names, and how a broker's answers change that."""

from __future__ import annotations

from uuid import UUID

import pytest

from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.errors import ErrorCode
from aioprod.reader.fetch_session import FetchSession, Plan
from aioprod.reader.position import ENDLESS, Position
from aioprod.types import TopicPartition

TOPIC = "orders"
ID, OTHER_ID = UUID(int=5), UUID(int=6)
NODE = Node(1, "h", 9092)


def cluster(epoch: int = 3, partitions: int = 5) -> Cluster:
    infos = [PartitionInfo(TOPIC, index, NODE, (NODE,), (NODE,)) for index in range(partitions)]
    epochs = {TopicPartition(TOPIC, index): epoch for index in range(partitions)}
    return Cluster([NODE], infos, topic_ids={TOPIC: ID}, leader_epochs=epochs)


def positions(count: int, topic_id: UUID | None = ID) -> list[Position]:
    return [
        Position(tp=TopicPartition(TOPIC, index), offset=10, end=ENDLESS, topic_id=topic_id) for index in range(count)
    ]


def named(plan: Plan) -> list[int]:
    return [one.tp.partition for one in plan.named]


def forgotten(plan: Plan) -> list[int]:
    return [tp.partition for tp, _ in plan.forgotten]


def begun(some: list[Position]) -> FetchSession:
    """A session with these partitions."""
    session = FetchSession()
    session.plan(some, cluster())
    assert session.accept(ErrorCode.NONE, 77)
    return session


def test_the_first_request_names_everything_and_asks_for_a_session() -> None:
    session = FetchSession()
    plan = session.plan(positions(3), cluster())
    assert (plan.session_id, plan.epoch, named(plan), forgotten(plan)) == (0, 0, [0, 1, 2], [])
    assert not session.is_partial


def test_later_requests_name_what_has_changed() -> None:
    some = positions(4)
    session = begun(some)
    plan = session.plan(some, cluster())
    assert (plan.session_id, plan.epoch, named(plan)) == (77, 1, [])
    assert session.is_partial
    assert session.accept(ErrorCode.NONE, 77)
    some[2].offset = 20
    plan = session.plan(some, cluster())
    assert (plan.epoch, named(plan)) == (2, [2])
    assert session.accept(ErrorCode.NONE, 77)
    assert named(session.plan(some, cluster(epoch=4))) == [0, 1, 2, 3]


def test_partitions_come_and_go() -> None:
    some = positions(4)
    session = begun(some[:3])
    plan = session.plan([some[0], some[3]], cluster())
    assert (named(plan), forgotten(plan)) == ([3], [1, 2])
    assert session.accept(ErrorCode.NONE, 77)
    assert named(session.plan(some, cluster())) == [1, 2]


def test_a_topic_that_was_created_again_is_forgotten_by_its_old_id() -> None:
    some = positions(1)
    session = begun(some)
    some[0].topic_id = OTHER_ID
    plan = session.plan(some, cluster())
    assert (named(plan), plan.forgotten) == ([0], [(some[0].tp, ID)])
    assert session.position("", OTHER_ID, 0) is some[0]


def test_a_broker_without_room_for_a_session_gets_full_requests() -> None:
    some = positions(2)
    session = FetchSession()
    for _ in range(3):
        plan = session.plan(some, cluster())
        assert (plan.session_id, plan.epoch, named(plan)) == (0, 0, [0, 1])
        assert session.accept(ErrorCode.NONE, 0)
        assert not session.is_partial


def test_a_session_that_the_broker_ends_begins_again() -> None:
    some = positions(2)
    session = begun(some)
    session.plan(some, cluster())
    assert session.accept(ErrorCode.NONE, 0)
    assert named(session.plan(some, cluster())) == [0, 1]


@pytest.mark.parametrize(
    ("code", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 77),
    ],
)
def test_a_rejected_session_is_replaced(code: ErrorCode, session_id: int) -> None:
    some = positions(2)
    session = begun(some)
    session.plan(some, cluster())
    assert not session.accept(code, 0)
    plan = session.plan(some, cluster())
    assert (plan.session_id, plan.epoch, named(plan)) == (session_id, 0, [0, 1])


def test_after_a_lost_response_the_next_request_closes_the_session_and_begins_another() -> None:
    some = positions(2)
    session = begun(some)
    session.plan(some, cluster())
    session.lost()
    plan = session.plan(some, cluster())
    assert (plan.session_id, plan.epoch, named(plan)) == (77, 0, [0, 1])
    assert session.accept(ErrorCode.NONE, 78)
    plan = session.plan(some, cluster())
    assert (plan.session_id, plan.epoch, named(plan)) == (78, 1, [])


def test_another_error_is_that_of_the_partitions() -> None:
    some = positions(1)
    session = begun(some)
    session.plan(some, cluster())
    assert session.accept(ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert named(session.plan(some, cluster())) == [0]


def test_names_and_ids_are_not_mixed_in_a_session() -> None:
    some = positions(2)
    session = begun(some)
    by_name = positions(2, topic_id=None)
    plan = session.plan(by_name, cluster())
    assert (plan.session_id, plan.epoch, named(plan)) == (77, 0, [0, 1])


def test_the_epoch_starts_again_at_1() -> None:
    some = positions(1)
    session = begun(some)
    session.epoch = 2**31 - 1
    session.plan(some, cluster())
    assert session.accept(ErrorCode.NONE, 77)
    assert session.epoch == 1


def test_rows_are_found_by_name_or_id() -> None:
    some = positions(2)
    session = begun(some)
    assert session.position("", ID, 1) is some[1]
    assert session.position(TOPIC, UUID(int=0), 1) is some[1]
    assert session.position("", OTHER_ID, 1) is None
    assert session.position("", ID, 9) is None


def test_thousands_of_partitions_are_added_by_and_by() -> None:
    some = positions(2500)
    session = FetchSession()
    plans = []
    for _ in range(4):
        plan = session.plan(some, cluster(partitions=2500))
        plans.append((plan.epoch, len(plan.named), plan.is_complete))
        assert session.is_partial
        assert session.accept(ErrorCode.NONE, 77)
    assert plans == [(0, 1000, False), (1, 1000, False), (2, 500, True), (3, 0, True)]


def test_without_room_for_a_session_a_request_names_all_of_thousands() -> None:
    some = positions(1500)
    session = FetchSession()
    assert len(session.plan(some, cluster(partitions=1500)).named) == 1000
    assert session.accept(ErrorCode.NONE, 0)
    plan = session.plan(some, cluster(partitions=1500))
    assert (len(plan.named), plan.is_complete, session.is_partial) == (1500, True, False)
