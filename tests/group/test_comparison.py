"""What a rebalance moved, and how even an assignment is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.errors import UsageError
from aioprod.group.assignors import ASSIGNORS, StickyAssignor, Subscription, balance, compare
from aioprod.types import TopicPartition


def owned(**members: str) -> dict[str, list[TopicPartition]]:
    """Members with their partitions, as `t0p1 t1p0`."""
    return {
        member: [TopicPartition(topic, int(index)) for topic, index in (word.split("p") for word in text.split())]
        for member, text in members.items()
    }


def tp(text: str) -> TopicPartition:
    ((partition,),) = owned(x=text).values()
    return partition


ALL = [TopicPartition(topic, index) for topic in ("t0", "t1") for index in range(8)]


@st.composite
def assignments(draw: st.DrawFn) -> dict[str, list[TopicPartition]]:
    members = draw(st.sets(st.sampled_from("abcdef"), min_size=1))
    places = draw(st.lists(st.sampled_from([*sorted(members), None]), min_size=len(ALL), max_size=len(ALL)))
    return {member: [each for each, place in zip(ALL, places, strict=True) if place == member] for member in members}


SIZES = {partition: 3 * partition.partition for partition in ALL}


class TestCompare:
    def test_moves_by_source_and_target(self) -> None:
        before = owned(a="t0p0 t0p1 t0p2", b="t0p3 t0p4", gone="t0p5")
        after = owned(a="t0p0", b="t0p3 t0p1", new="t0p2 t0p5 t1p0")
        found = compare(before, after)
        assert [(move.partition, move.source, move.target, move.cause) for move in found.moved] == [
            (tp("t0p1"), "a", "b", "balance"),
            (tp("t0p2"), "a", "new", "joined"),
            (tp("t0p5"), "gone", "new", "left"),
        ]
        assert [found.moved_because(cause) for cause in ("left", "joined", "balance")] == [1, 1, 1]
        assert (found.kept, dict(found.new), dict(found.gone)) == (2, {tp("t1p0"): "new"}, {tp("t0p4"): "b"})
        assert (found.joined, found.left) == (("new",), ("gone",))
        assert (found.moved_size, found.kept_size, found.moved_share) == (3, 2, 0.6)

    def test_members_are_known_by_name_and_partitions_by_owner_in_any_order(self) -> None:
        before = owned(a="t0p0 t0p1", b="t0p2")
        assert compare(before, {"b": {tp("t0p2")}, "a": reversed(before["a"])}).moved == ()

    def test_sizes_weigh_what_moved_and_the_load(self) -> None:
        sizes = {tp("t0p0"): 70, tp("t0p1"): 20, tp("t0p2"): 10.5}
        found = compare(owned(a="t0p0 t0p1", b="t0p2"), owned(a="t0p0", b="t0p2 t0p1"), sizes=sizes)
        assert (found.moved_size, found.kept_size) == (20, 80.5)
        assert dict(found.before.loads) == {"a": 90, "b": 10.5}
        assert dict(found.after.loads) == {"a": 70, "b": 30.5}

    def test_two_empty_assignments(self) -> None:
        found = compare({}, {})
        assert (found.moved, found.kept, found.moved_share, found.after.skew, found.after.mean) == ((), 0, 0, 1, 0)
        assert str(found).startswith("No partition had a member before and has one after.\n")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((owned(a="t0p0 t0p0"), {}), "The assignment before gives partition 0 of 't0' away twice: to a."),
            (
                ({}, owned(a="t0p0 t0p1", b="t0p1")),
                "The assignment after gives partition 1 of 't0' away twice: to a and b.",
            ),
        ],
    )
    def test_a_partition_has_one_member(
        self, arguments: tuple[Mapping[str, Sequence[TopicPartition]], ...], said: str
    ) -> None:
        with pytest.raises(UsageError) as caught:
            compare(*arguments)
        assert caught.value.message == said

    @pytest.mark.parametrize("size", [None, -1, float("nan"), float("inf"), 2**63, 10**400, "7"])
    def test_each_partition_has_a_size_that_can_be_one(self, size: int) -> None:
        sizes = {} if size is None else {tp("t0p0"): size}
        with pytest.raises(UsageError, match=r"^Partition 0 of 't0' has the size .*: each needs a number from 0 to"):
            compare({}, owned(a="t0p0"), sizes=sizes)
        with pytest.raises(UsageError, match="has the size"):
            balance(owned(a="t0p0"), sizes=sizes)

    @given(assignments(), assignments())
    def test_every_partition_is_counted_once(
        self, before: dict[str, list[TopicPartition]], after: dict[str, list[TopicPartition]]
    ) -> None:
        found = compare(before, after, sizes=SIZES)
        moved = [move.partition for move in found.moved]
        had = {each for tps in before.values() for each in tps}
        has = {each for tps in after.values() for each in tps}
        assert len(set(moved)) == len(moved)
        assert len(moved) + found.kept + len(found.gone) == len(had)
        assert len(moved) + found.kept + len(found.new) == len(has)
        assert set(found.new) == has - had
        assert set(found.gone) == had - has
        assert all(
            move.partition in before[move.source] and move.partition in after[move.target] for move in found.moved
        )
        assert found.after == balance(after, sizes=SIZES)
        assert found.moved_size + found.kept_size == sum(SIZES[each] for each in had & has)
        back = compare(after, before, sizes=SIZES)
        assert [(move.target, move.source) for move in back.moved] == [
            (move.source, move.target) for move in found.moved
        ]


class TestBalance:
    def test_measures(self) -> None:
        found = balance(owned(a="t0p0 t0p1 t0p2 t0p3", b="t1p0", c=""))
        assert dict(found.loads) == {"a": 4, "b": 1, "c": 0}
        assert (found.largest, found.mean, found.least, found.spread) == (4, 5 / 3, 0, 4)
        assert (found.skew, found.score, len(found.sizes)) == (2.4, 8, 5)
        assert not found.is_weighted

    def test_members_stand_in_the_order_of_assignors(self) -> None:
        assert list(balance(owned(b="", a="", B="")).loads) == ["B", "a", "b"]

    @given(assignments())
    def test_the_score_adds_up_the_differences_of_all_pairs(self, assignment: dict[str, list[TopicPartition]]) -> None:
        found = balance(assignment, sizes=SIZES)
        pairs = itertools.combinations(found.loads.values(), 2)
        assert found.score == sum(abs(one - other) for one, other in pairs)

    @given(assignments())
    def test_skew_and_spread_agree_that_all_is_even(self, assignment: dict[str, list[TopicPartition]]) -> None:
        found = balance(assignment)
        assert (found.skew == 1) == (found.spread == 0)
        mean = Fraction(len(found.sizes), len(found.loads))
        assert found.least <= mean <= found.largest

    @pytest.mark.parametrize("name", ["roundrobin", "sticky"])
    def test_assignors_that_count_all_partitions_are_even(self, name: str) -> None:
        members = {member: Subscription(["t0", "t1"]) for member in "abc"}
        assert balance(ASSIGNORS[name].assign({"t0": 4, "t1": 4}, members)).spread == 1
        assert balance(ASSIGNORS["range"].assign({"t0": 4, "t1": 4}, members)).spread == 2


class TestText:
    def test_a_rebalance(self) -> None:
        sticky = StickyAssignor()
        topics = ["clicks", "orders"]
        before = sticky.assign({"orders": 5, "clicks": 3}, {member: Subscription(topics) for member in ("a", "b", "d")})
        members = {
            member: Subscription(topics, owned=before.get(member, ()), generation=1 if member in before else -1)
            for member in ("a", "b", "c")
        }
        after = sticky.assign({"orders": 7, "clicks": 2}, members)
        assert str(compare(before, after)) == (
            "1 of 7 partitions moved (14.3 %): 1 because the member left.\n"
            "\n"
            "New partitions: 2 (orders 5-6).\n"
            "\n"
            "Gone partitions: 1 (clicks 2).\n"
            "\n"
            "Moved. Most first.\n"
            "  from  to  partitions  which\n"
            "  d     c            1  orders 2\n"
            "\n"
            "Members. Partitions before and after.\n"
            "  member          before  after  which\n"
            "  a                    3      3  clicks 0; orders 0 3\n"
            "  b                    3      3  clicks 1; orders 1 4\n"
            "  c       joined       0      3  orders 2 5-6\n"
            "  d       left         2      0\n"
            "\n"
            "Balance. The load of a member is the number of its partitions. Largest/mean: 1 is even.\n"
            "          members  partitions  largest  mean  least  spread  largest/mean\n"
            "  before        3           8        3  2.67      2       1          1.12\n"
            "  after         3           9        3  3.00      3       0          1.00\n"
        )

    def test_an_assignment(self) -> None:
        sizes = {tp(f"t0p{index}"): 1.5 for index in range(6)} | {tp("t1p0"): 1000}
        assert str(balance(owned(worker="t0p0 t0p1 t0p2 t0p5 t1p0", b=""), sizes=sizes)) == (
            "Members.\n"
            "  member  partitions      load  which\n"
            "  b                0         0\n"
            "  worker           5  1,006.00  t0 0-2 5; t1 0\n"
            "\n"
            "Balance. The load of a member is the sizes of its partitions, added up. Largest/mean: 1 is even.\n"
            "  members  partitions   largest    mean  least    spread  largest/mean\n"
            "        2           5  1,006.00  503.00      0  1,006.00          2.00\n"
        )

    def test_many_members_are_summarised_unless_all_are_requested(self) -> None:
        members = {f"m-{index:04}": Subscription(["t"]) for index in range(2000)}
        assignor = ASSIGNORS["range"]
        before = assignor.assign({"t": 10_000}, members)
        after = assignor.assign({"t": 10_000}, dict(list(members.items())[:-1]))
        found = compare(before, after)
        short = found.table().splitlines()
        assert len(short) < 100
        assert max(map(len, short)) < 120
        assert sum(line.startswith("  m-") for line in short) == 80
        full = found.table(rows_max=None)
        assert all(f"\n  {member} " in full for member in members)
        assert balance(after).table(rows_max=3).splitlines()[:6] == [
            "Members. The busiest and the idlest of them.",
            "  member  partitions  which",
            "  m-0000           6  t 0-5",
            "  m-0001           6  t 6-11",
            "  ... 1,996 more",
            "  m-1998           5  t 9995-9999",
        ]

    def test_long_lists_of_partitions_are_cut_unless_all_are_requested(self) -> None:
        found = balance({"a": [TopicPartition("t", 2 * index) for index in range(100)]})
        assert "..." in found.table()
        assert "..." not in found.table(rows_max=None)
        assert "196 198" in found.table(rows_max=None)
