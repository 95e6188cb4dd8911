"""What kafka-python and aiokafka test of their assignors, rewritten: both have the same cases, but for cooperation.

Left out, as there is nothing here that they could be about: that an assignor's metadata carry owned partitions, and
that they are read from it (`group/subscription_codec.py` does that for all assignors and has its own tests); that the
records of movements know whether they are sticky (ours are not checked directly: that no two members swap partitions of
a topic is checked on the assignments themselves, in all cases where peers check their records).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import pytest

from aioprod.group.assignors import (
    ASSIGNORS,
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from aioprod.group.assignors.sticky.movements import Movements
from aioprod.types import TopicPartition
from tests.support.assignments import Owned, check_balanced, next_round, parsed, readers, short, swaps

STICKY = StickyAssignor()
COOPERATIVE = CooperativeStickyAssignor()

Topics = Mapping[str, Iterable[str]]


def checked_first(partitions: Mapping[str, int], topics: Topics) -> Owned:
    """The assignment of a new group, checked."""
    members = next_round(topics, {})
    assignment = STICKY.assign(partitions, members)
    check_balanced(members, partitions, assignment)
    return assignment


def checked_next(
    partitions: Mapping[str, int], topics: Topics, owned: Owned, newer: Mapping[str, int] | None = None
) -> Owned:
    """The next assignment, checked: also that no two members swap partitions."""
    members = next_round(topics, owned, newer=newer)
    assignment = STICKY.assign(partitions, members)
    check_balanced(members, partitions, assignment)
    assert swaps({member: owned.get(member, ()) for member in topics}, assignment) == []
    return assignment


def nested(count: int) -> dict[str, list[str]]:
    """Member n reads the first n topics."""
    return {f"C{number}": [f"t{index}" for index in range(1, number + 1)] for number in range(1, count + 1)}


@pytest.mark.parametrize(
    ("assignor", "answer"),
    [
        (RoundRobinAssignor(), {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"}),
        (RangeAssignor(), {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t1p2"}),
    ],
)
def test_two_members_and_two_topics(assignor: Assignor, answer: Mapping[str, str]) -> None:
    assert short(assignor.assign({"t0": 3, "t1": 3}, readers("C0", "C1", topics=["t0", "t1"]))) == answer


@pytest.mark.parametrize(
    ("partitions", "topics", "answer"),
    [
        ({}, {"C": []}, {"C": ""}),
        ({}, {"C": ["t"]}, {"C": ""}),
        ({"t": 3}, {"C": ["t"]}, {"C": "tp0 tp1 tp2"}),
        ({"t": 3, "other-t": 3}, {"C": ["t"]}, {"C": "tp0 tp1 tp2"}),
        ({"t1": 3, "t2": 3}, {"C": ["t1", "t2"]}, {"C": "t1p0 t1p1 t1p2 t2p0 t2p1 t2p2"}),
        ({"t": 1}, {"C1": ["t"], "C2": ["t"]}, {"C1": "tp0", "C2": ""}),
        ({"t": 2}, {"C1": ["t"], "C2": ["t"]}, {"C1": "tp0", "C2": "tp1"}),
        (
            {"t1": 3, "t2": 2},
            {"C1": ["t1"], "C2": ["t1", "t2"], "C3": ["t1"]},
            {"C1": "t1p0 t1p2", "C2": "t2p0 t2p1", "C3": "t1p1"},
        ),
    ],
    ids=[
        "no topic",
        "a topic that is not there",
        "one topic",
        "what it does not read",
        "two topics",
        "one partition for two",
        "two partitions for two",
        "mixed subscriptions",
    ],
)
def test_a_new_group(partitions: Mapping[str, int], topics: Topics, answer: Mapping[str, str]) -> None:
    assert short(checked_first(partitions, topics)) == answer


def test_equal_subscriptions_before_and_after_a_member_left() -> None:
    topics = ["t0", "t1", "t2", "t3"]
    partitions = dict.fromkeys(topics, 2)
    before = checked_first(partitions, dict.fromkeys(("C0", "C1", "C2"), topics))
    assert short(before) == {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
    # They deal t2p0 to C0 and the others to C2; Java, whose answer this is, t0p1 to C0.
    after = checked_next(partitions, dict.fromkeys(("C0", "C2"), topics), before)
    assert short(after) == {"C0": "t0p0 t0p1 t1p1 t3p0", "C2": "t1p0 t2p0 t2p1 t3p1"}


def test_nested_subscriptions_before_and_after_a_member_left() -> None:
    topics = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
    partitions = {"t0": 1, "t1": 2, "t2": 3}
    before = checked_first(partitions, topics)
    assert short(before) == {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}
    del topics["C0"]
    assert short(checked_next(partitions, topics, before)) == {"C1": "t0p0 t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}


def test_a_member_joins_and_the_first_one_leaves() -> None:
    alone = checked_first({"t": 3}, {"C1": ["t"]})
    assert short(alone) == {"C1": "tp0 tp1 tp2"}
    both = checked_next({"t": 3}, {"C1": ["t"], "C2": ["t"]}, alone)
    assert short(checked_next({"t": 3}, {"C2": ["t"]}, both)) == {"C2": "tp0 tp1 tp2"}


def test_a_topic_is_created_and_the_first_one_deleted() -> None:
    partitions = {"t1": 3, "t2": 3}
    one = checked_first(partitions, {key: ["t1"] for key in ("C1", "C2")})
    assert short(one) == {"C1": "t1p0 t1p2", "C2": "t1p1"}
    both = checked_next(partitions, {key: ["t1", "t2"] for key in ("C1", "C2")}, one)
    # They give t2p1 to C1 and the others to C2; Java, whose answer this is, deals from C1 on.
    assert short(both) == {"C1": "t1p0 t1p2 t2p0", "C2": "t1p1 t2p1 t2p2"}
    other = checked_next(partitions, {key: ["t2"] for key in ("C1", "C2")}, both)
    assert short(other) == {"C1": "t2p0", "C2": "t2p1 t2p2"}


def test_one_of_many_members_leaves() -> None:
    partitions = {f"t{index}": index for index in range(1, 20)}
    topics = nested(19)
    before = checked_first(partitions, topics)
    del topics["C10"]
    checked_next(partitions, topics, before)


def test_a_member_is_added() -> None:
    members = [f"C{number}" for number in range(1, 11)]
    before = checked_first({"t": 20}, {key: ["t"] for key in members[:-1]})
    checked_next({"t": 20}, {key: ["t"] for key in members}, before)


def test_one_of_many_members_with_the_same_topics_leaves() -> None:
    partitions = {f"t{index}": index for index in range(1, 15)}
    topics = {key: list(partitions) for key in (f"C{number}" for number in range(1, 9))}
    before = checked_first(partitions, topics)
    del topics["C5"]
    checked_next(partitions, topics, before)


@pytest.mark.parametrize("seed", range(5))
def test_many_members_leave_at_once(seed: int) -> None:
    source = random.Random(seed)
    partitions = {f"t{index}": source.randint(0, 10) for index in range(40)}
    topics = {f"C{number}": source.choices(list(partitions), k=source.randint(1, 20)) for number in range(200)}
    topics = {member: sorted(set(read)) for member, read in topics.items()}
    before = checked_first(partitions, topics)
    for member in source.sample(list(topics), 50):
        del topics[member]
    checked_next(partitions, topics, before)


def test_a_subscription_grows() -> None:
    partitions = dict.fromkeys(("t1", "t2", "t3", "t4"), 1)
    topics = {"C0": [], "C1": ["t1"], "C2": ["t2", "t3", "t4"]}
    checked_first(partitions, topics)
    topics["C0"].append("t1")
    checked_next(partitions, topics, {})


def test_what_members_own_is_moved() -> None:
    partitions = dict.fromkeys(("t1", "t2", "t3", "t4", "t5", "t6"), 1)
    topics = {"C1": ["t1", "t2"], "C2": ["t1", "t2", "t3", "t4"], "C3": ["t2", "t3", "t4", "t5", "t6"]}
    owned = {"C1": parsed("t1p0"), "C2": parsed("t2p0 t3p0"), "C3": parsed("t4p0 t5p0 t6p0")}
    checked_next(partitions, topics, owned)


def test_owners_keep_their_partitions_when_another_member_leaves() -> None:
    topics = {key: ["t"] for key in ("C1", "C2", "C3", "C4")}
    before = checked_first({"t": 3}, topics)
    assert max(map(len, before.values())) == 1
    del topics["C1"]
    after = checked_next({"t": 3}, topics, before)
    assert all(after[member] == before[member] for member in topics if before[member])


def test_a_topic_is_deleted() -> None:
    assert short(checked_first({"t1": 1, "t3": 100}, {"C": ["t1", "t2", "t3"]}))["C"].split()[:2] == ["t1p0", "t3p0"]


def test_the_only_topic_is_deleted() -> None:
    before = checked_first({"t": 3}, {"C": ["t"]})
    assert short(checked_next({}, {"C": []}, before)) == {"C": ""}


def test_two_members_claim_the_same_partition_twice_each() -> None:
    claims = {member: parsed("tp0 tp0") for member in ("C1", "C2")}
    members = next_round({key: ["t"] for key in claims}, claims, generation=1)
    check_balanced(members, {"t": 2}, STICKY.assign({"t": 2}, members))


@pytest.mark.parametrize("seed", range(100))
def test_all_subscriptions_change(seed: int) -> None:
    source = random.Random(seed)
    partitions = {f"t{index}": index for index in range(1, source.randint(11, 21))}

    def some_topics() -> list[str]:
        return source.sample(list(partitions), source.randint(1, len(partitions) - 1))

    members = [f"C{number}" for number in range(source.randint(20, 40))]
    before = checked_first(partitions, {member: some_topics() for member in members})
    checked_next(partitions, {member: some_topics() for member in members}, before)


def test_a_member_returns_with_partitions_of_an_older_generation() -> None:
    partitions = {"t": 6}
    one = checked_first(partitions, {key: ["t"] for key in ("C1", "C2", "C3")})
    two = checked_next(partitions, {key: ["t"] for key in ("C1", "C2")}, one)
    assert all(set(one[member]) < set(two[member]) for member in two)
    owned = {"C2": two["C2"], "C3": one["C3"]}
    three = checked_next(partitions, {key: ["t"] for key in owned}, owned, newer={"C2": 2, "C3": 1})
    assert [len(held) for held in (*one.values(), *two.values(), *three.values())] == [2, 2, 2, 3, 3, 3, 3]


def test_two_members_come_back_with_what_they_had_a_generation_ago() -> None:
    partitions = {"t": 6}
    members = {key: ["t"] for key in ("C1", "C2", "C3")}
    one = checked_first(partitions, members)
    two = checked_next(partitions, {"C2": ["t"]}, one, newer={"C2": 1})
    assert set(one["C2"]) < set(two["C2"])
    three = checked_next(partitions, members, {**one, "C2": two["C2"]}, newer={"C1": 1, "C2": 2, "C3": 1})
    # They restore the first assignment. Java's result is this one: where all read the same topics it ignores older
    # generation, C2 keeps the first of what it has, and the rest is dealt.
    assert short(three) == {"C1": "tp2 tp4", "C2": "tp0 tp1", "C3": "tp3 tp5"}


def test_claims_of_two_generations_that_cross() -> None:
    """Theirs runs 50 times, as their answer depends on the order of sets; ours has one answer."""
    claims = {"C1": parsed("tp0 tp1 tp4"), "C2": parsed("tp0 tp2 tp3"), "C3": parsed("tp3 tp4 tp5")}
    members = next_round({key: ["t"] for key in claims}, claims, newer={"C1": 1, "C2": 1, "C3": 2})
    check_balanced(members, {"t": 6}, STICKY.assign({"t": 6}, members))


class TestMovements:
    TP1, TP2 = parsed("tp1 tp2")

    def test_none_at_first(self) -> None:
        assert Movements().better(self.TP1, "C1", "C2") == self.TP1

    def test_a_partition_that_went_round_never_moved(self) -> None:
        movements = Movements()
        for source, target in (("C1", "C2"), ("C2", "C3"), ("C3", "C1")):
            movements.record(self.TP1, source, target)
        assert movements.better(self.TP2, "C2", "C1") == self.TP2

    def test_one_returns_before_another_one_follows(self) -> None:
        movements = Movements()
        movements.record(self.TP1, "C1", "C2")
        assert movements.better(self.TP2, "C2", "C1") == self.TP1


def test_swaps_are_seen() -> None:
    before = {"C1": parsed("tp1 up0"), "C2": parsed("tp2 vp0")}
    assert swaps(before, {"C1": parsed("tp2 vp0"), "C2": parsed("tp1 up0")}) == ["t"]
    assert swaps(before, before) == []


class TestCooperation:
    def test_only_one_assignor_is_cooperative(self) -> None:
        assert [name for name, assignor in ASSIGNORS.items() if getattr(assignor, "cooperative", False)] == [
            "cooperative-sticky"
        ]

    def test_a_new_group_assigns_at_once(self) -> None:
        members = readers("C0", "C1", topics=["t"])
        assert short(COOPERATIVE.assign({"t": 4}, members)) == short(STICKY.assign({"t": 4}, members))

    def test_what_moves_has_no_member_for_a_round(self) -> None:
        members = next_round(
            {"C0": ["t"], "C1": ["t"]}, {"C0": parsed("tp0 tp1 tp2"), "C1": parsed("tp3")}, generation=-1
        )
        given = COOPERATIVE.assign({"t": 4}, members)
        handed = [tp for owned in given.values() for tp in owned]
        assert len(set(handed)) == len(handed) == 3
        assert {TopicPartition("t", index) for index in range(4)}.difference(handed) < set(members["C0"].owned)

    def test_every_member_gets_an_assignment(self) -> None:
        members = next_round({"C0": ["t"], "C1": ["t"]}, {"C0": parsed("tp0 tp1")})
        assert COOPERATIVE.assign({"t": 2}, members).keys() == {"C0", "C1"}
