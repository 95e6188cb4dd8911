"""Assignments as short text, the next rebalance of a group, and checks of any assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from aioprod.group.assignors import Subscription, compare
from aioprod.types import TopicPartition

__all__ = ["Owned", "check_assigned", "check_balanced", "next_round", "parsed", "readers", "short", "swaps"]

Owned = Mapping[str, Collection[TopicPartition]]


def short(assignment: Owned) -> dict[str, str]:
    """Per member its partitions in order, as `t0p1 t1p0`."""
    return {
        member: " ".join(f"{topic}p{partition}" for topic, partition in sorted(partitions))
        for member, partitions in assignment.items()
    }


def parsed(text: str) -> list[TopicPartition]:
    """The partitions in such a text."""
    return [TopicPartition(topic, int(partition)) for topic, partition in (word.split("p") for word in text.split())]


def readers(*members: str, topics: Sequence[str]) -> dict[str, Subscription]:
    """Members that all read the same topics and own nothing."""
    return {member: Subscription(topics) for member in members}


def next_round(
    topics: Mapping[str, Iterable[str]], owned: Owned, generation: int = -1, newer: Mapping[str, int] | None = None
) -> dict[str, Subscription]:
    """Subscriptions to these topics with the owned partitions of the last assignment; `newer` has other generations."""
    return {
        member: Subscription(sorted(read), tuple(owned.get(member, ())), (newer or {}).get(member, generation))
        for member, read in topics.items()
    }


def check_assigned(members: Mapping[str, Subscription], partitions: Mapping[str, int], assignment: Owned) -> None:
    """Each partition of a subscribed topic is assigned to one member, which subscribes to the topic."""
    assert assignment.keys() == members.keys()
    given = [tp for owned in assignment.values() for tp in owned]
    read = {topic for subscription in members.values() for topic in subscription.topics}
    assert sorted(given) == sorted(
        TopicPartition(topic, index) for topic in read for index in range(partitions.get(topic, 0))
    )
    for member, owned in assignment.items():
        assert {tp.topic for tp in owned} <= set(members[member].topics), member


def check_balanced(members: Mapping[str, Subscription], partitions: Mapping[str, int], assignment: Owned) -> None:
    """It is valid, and no member has two more partitions than another one that could have one of them."""
    check_assigned(members, partitions, assignment)
    for member, subscription in members.items():
        for other, owned in assignment.items():
            if len(owned) > len(assignment[member]) + 1:
                assert not {tp.topic for tp in owned}.intersection(subscription.topics), (
                    f"{other} could give to {member}"
                )


def swaps(before: Owned, after: Owned) -> list[str]:
    """Topics of which two members have exchanged partitions that only they had owned."""
    claims = Counter(tp for owned in before.values() for tp in owned)
    undisputed = {member: [tp for tp in owned if claims[tp] == 1] for member, owned in before.items()}
    moves = {(move.partition.topic, move.source, move.target) for move in compare(undisputed, after).moved}
    return sorted({topic for topic, source, target in moves if (topic, target, source) in moves})
