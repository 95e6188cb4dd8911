"""The rules of each assignor, and properties of the assignments of any group."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.cluster import Node, PartitionInfo
from aioprod.errors import UsageError
from aioprod.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
)
from aioprod.types import TopicPartition
from tests.support.assignments import parsed, readers, short

EVERY_ASSIGNOR: tuple[Assignor, ...] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)


class TestRange:
    def test_static_members_keep_their_order_under_new_ids(self) -> None:
        members = {"c9": Subscription(["t"], group_instance_id="a"), "c1": Subscription(["t"], group_instance_id="b")}
        assert short(RangeAssignor().assign({"t": 3}, members)) == {"c9": "tp0 tp1", "c1": "tp2"}

    def test_racks_are_matched_where_that_changes_no_count(self) -> None:
        members = {"c0": Subscription(["t"], rack="a"), "c1": Subscription(["t"], rack="b")}
        partitions = {"t": replicas("t", "b", "a", "b", "a")}
        assert short(RangeAssignor().assign(partitions, members)) == {"c0": "tp1 tp3", "c1": "tp0 tp2"}

    def test_co_partitioned_topics_stay_together(self) -> None:
        members = {"c0": Subscription(["t", "u"], rack="a"), "c1": Subscription(["t", "u"], rack="b")}
        partitions = {"t": replicas("t", "b", "a"), "u": replicas("u", "b", "ab")}
        assert short(RangeAssignor().assign(partitions, members)) == {"c0": "tp1 up1", "c1": "tp0 up0"}


class TestSticky:
    def test_the_newer_generation_is_believed(self) -> None:
        members = {
            "c0": Subscription(["t"], parsed("tp0 tp1"), generation=4),
            "c1": Subscription(["t"], parsed("tp1 tp2 tp3"), generation=5),
        }
        assert short(StickyAssignor().assign({"t": 4}, members)) == {"c0": "tp0 tp3", "c1": "tp1 tp2"}

    def test_two_claims_of_one_generation_both_lose(self) -> None:
        members = {"c0": Subscription(["t"], parsed("tp0")), "c1": Subscription(["t"], parsed("tp0"))}
        assert short(StickyAssignor().assign({"t": 2}, members)) == {"c0": "tp0", "c1": "tp1"}
        assert short(CooperativeStickyAssignor().assign({"t": 2}, members)) == {"c0": "", "c1": "tp1"}

    def test_racks_within_quota(self) -> None:
        members = {"c0": Subscription(["t"], rack="a"), "c1": Subscription(["t"], rack="b")}
        given_out = StickyAssignor().assign({"t": replicas("t", "b", "a", "b", "ab")}, members)
        assert short(given_out) == {"c0": "tp1 tp3", "c1": "tp0 tp2"}

    def test_racks_of_members_that_read_different_topics(self) -> None:
        members = {"c0": Subscription(["t", "u"], rack="a"), "c1": Subscription(["t"], rack="b")}
        given_out = StickyAssignor().assign({"t": replicas("t", "b", "a", "b"), "u": replicas("u", "")}, members)
        assert short(given_out) == {"c0": "tp1 up0", "c1": "tp0 tp2"}

    def test_owned_partitions_in_user_data(self) -> None:
        data = struct.pack(">ih1siiii", 1, 1, b"t", 2, 2, 3, 7)
        members = {"c0": Subscription(["t"]), "c1": Subscription(["t"], user_data=data)}
        assert short(StickyAssignor().assign({"t": 4}, members)) == {"c0": "tp0 tp1", "c1": "tp2 tp3"}

    @pytest.mark.parametrize("end", range(22))
    def test_truncated_user_data_are_ignored(self, end: int) -> None:
        data = struct.pack(">ih1siii", 1, 1, b"t", 2, 2, 3)[:end]
        members = {"c0": Subscription(["t"], user_data=data or None)}
        assert len(StickyAssignor().assign({"t": 4}, members)["c0"]) == 4

    def test_generation_in_user_data(self) -> None:
        members = {
            "c0": Subscription(["t"], parsed("tp0"), generation=2),
            "c1": Subscription(["t"], parsed("tp0"), user_data=struct.pack(">i", 3)),
        }
        assert short(StickyAssignor().assign({"t": 1}, members)) == {"c0": "tp0", "c1": ""}
        # Moved by a newer claim, not revoked: its new owner says that it has it already.
        assert short(CooperativeStickyAssignor().assign({"t": 1}, members)) == {"c0": "", "c1": "tp0"}


class TestCooperative:
    def test_what_moves_is_revoked_first(self) -> None:
        members = {"c0": Subscription(["t"], parsed("tp0 tp1 tp2"), 1), "c1": Subscription(["t"], (), 1)}
        first = CooperativeStickyAssignor().assign({"t": 3}, members)
        assert short(first) == {"c0": "tp0 tp1", "c1": ""}
        again = {member: Subscription(["t"], owned, 2) for member, owned in first.items()}
        assert short(CooperativeStickyAssignor().assign({"t": 3}, again)) == {"c0": "tp0 tp1", "c1": "tp2"}

    def test_also_where_members_read_different_topics(self) -> None:
        members = {"c0": Subscription(["t", "u"], parsed("tp0 tp1 tp2 up0"), 1), "c1": Subscription(["t"], (), 1)}
        first = CooperativeStickyAssignor().assign({"t": 3, "u": 1}, members)
        assert short(first)["c1"] == ""
        assert len(first["c0"]) == 2


def replicas(topic: str, *racks: str) -> list[PartitionInfo]:
    """Partitions with one replica in each of the racks that a word names."""
    return [
        PartitionInfo(topic, index, None, tuple(Node(ord(rack), "host", 9092, rack) for rack in word), ())
        for index, word in enumerate(racks)
    ]


@pytest.mark.parametrize("assignor", EVERY_ASSIGNOR)
class TestAnything:
    def test_no_members(self, assignor: Assignor) -> None:
        assert assignor.assign({"t": 3}, {}) == {}

    def test_no_topics(self, assignor: Assignor) -> None:
        assert assignor.assign({"t": 3}, {"c": Subscription([])}) == {"c": []}

    def test_unknown_and_empty_topics(self, assignor: Assignor) -> None:
        assert assignor.assign({"t": 0}, {"c": Subscription(["t", "u"])}) == {"c": []}

    def test_more_members_than_partitions(self, assignor: Assignor) -> None:
        assert short(assignor.assign({"t": 1}, readers("b", "a", topics=["t"]))) == {"a": "tp0", "b": ""}

    def test_negative_count(self, assignor: Assignor) -> None:
        with pytest.raises(UsageError, match="can't have -1 partitions"):
            assignor.assign({"t": -1}, readers("a", topics=["t"]))


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, list[PartitionInfo]], dict[str, Subscription]]:
    """Any group: topics on some racks, members that read some of them and say that they own something."""
    words = st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=6)
    topics = {name: replicas(name, *draw(words)) for name in ("t0", "t1", "t2")}
    everything = [TopicPartition(name, index) for name, infos in topics.items() for index in range(len(infos))]
    members: dict[str, Subscription] = {}
    for number in range(draw(st.integers(1, 7))):
        members[f"c{number}"] = Subscription(
            draw(st.lists(st.sampled_from(sorted(topics)), unique=True, min_size=1)),
            draw(st.lists(st.sampled_from(everything), unique=True, max_size=6)),
            draw(st.integers(-1, 2)),
            draw(st.sampled_from([None, "a", "b"])),
        )
    return topics, members


@pytest.mark.parametrize("assignor", EVERY_ASSIGNOR)
@given(group=groups())
def test_each_partition_is_assigned_to_one_subscriber(
    assignor: Assignor, group: tuple[dict[str, list[PartitionInfo]], dict[str, Subscription]]
) -> None:
    topics, members = group
    given_out = assignor.assign(topics, members)
    assert given_out.keys() == members.keys()
    handed = [(tp, member) for member, partitions in given_out.items() for tp in partitions]
    assert all(tp.topic in members[member].topics for tp, member in handed)
    assert len(handed) == len({tp for tp, _ in handed})
    read = {topic for subscription in members.values() for topic in subscription.topics}
    wanted = {TopicPartition(topic, index) for topic in read for index in range(len(topics[topic]))}
    owned = {tp for subscription in members.values() for tp in subscription.owned}
    missing = wanted - {tp for tp, _ in handed}
    assert not missing if not isinstance(assignor, CooperativeStickyAssignor) else missing <= owned
    backwards = dict(reversed(members.items()))
    assert assignor.assign(dict(reversed(topics.items())), backwards) == given_out


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=4), member_count=st.integers(1, 9))
def test_equal_readers_get_equal_shares(counts: list[int], member_count: int) -> None:
    topics = {f"t{index}": count for index, count in enumerate(counts)}
    members = readers(*(f"c{index}" for index in range(member_count)), topics=list(topics))
    for assignor in (RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()):
        loads = [len(partitions) for partitions in assignor.assign(topics, members).values()]
        assert max(loads) - min(loads) <= 1
    for topic in topics:
        ranges = RangeAssignor().assign(topics, members).values()
        loads = [sum(tp.topic == topic for tp in partitions) for partitions in ranges]
        assert max(loads) - min(loads) <= 1


@given(group=groups(), leaver=st.integers(0, 6), is_even=st.booleans())
def test_members_that_stay_keep_their_partitions(
    group: tuple[dict[str, list[PartitionInfo]], dict[str, Subscription]], leaver: int, is_even: bool
) -> None:
    topics, members = group
    counts = {topic: len(infos) for topic, infos in topics.items()}
    said = {member: list(topics) if is_even else subscription.topics for member, subscription in members.items()}
    first = StickyAssignor().assign(counts, {member: Subscription(read) for member, read in said.items()})
    staying = {member: Subscription(read, first[member], 1) for member, read in said.items() if member != f"c{leaver}"}
    second = StickyAssignor().assign(counts, staying)
    if is_even:
        assert all(set(first[member]) <= set(partitions) for member, partitions in second.items())
    if len(staying) == len(members):
        assert {member: set(partitions) for member, partitions in second.items()} == {
            member: set(partitions) for member, partitions in first.items()
        }
    cooperative = CooperativeStickyAssignor().assign(counts, staying)
    owner = {tp: member for member, subscription in staying.items() for tp in subscription.owned}
    assert all(owner.get(tp, member) == member for member, tps in cooperative.items() for tp in tps)
