"""Our assignors compared with Java's, over random groups with several rebalances.

The assignments are equal, except for three flaws of Java's sticky assignors: see `flaw`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import pytest

from aioprod.group.assignors import ASSIGNORS, Assignor, balance
from aioprod.types import TopicPartition
from integration.support.group_cases import GroupCase
from integration.support.java import JavaOracle
from integration.support.random_groups import random_groups
from tests.support.assignments import short
from tests.support.documented_groups import EXAMPLES, Example
from tests.support.length import by_length

GROUPS = by_length(500, 5_000)
BATCH = 250
ORDERS = 3
"""Of Java's maps: its own one, and two others."""

SAME = "equal to Java's, whatever the order of its maps"

Owned: TypeAlias = dict[str, frozenset[TopicPartition]]


@pytest.mark.java
@pytest.mark.timeout(600)  # the first run fetches the jars
def test_ours_are_javas(oracle: JavaOracle, cases: Counter[str]) -> None:
    groups = list(islice(random_groups(random.Random("groups")), GROUPS))
    for start in range(0, GROUPS, BATCH):
        batch = groups[start : start + BATCH]
        answers = oracle.call("assign", groups=[group.as_json() for group in batch], orders=ORDERS)
        for number, (group, by_assignor) in enumerate(zip(batch, answers, strict=True), start):
            for assignor in ASSIGNORS.values():
                verdict = judge(assignor, group, by_assignor[assignor.name], f"{assignor.name}, group {number}")
                cases[f"assignments by {assignor.name}: {verdict}"] += 1
    for name in ASSIGNORS:
        assert cases[f"assignments by {name}: {SAME}"] > GROUPS * 0.9, "few answers could be compared"


@pytest.mark.java
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.name))
def test_the_documented_results_are_javas(oracle: JavaOracle, example: Example) -> None:
    group = GroupCase({topic: [[]] * count for topic, count in example.topics.items()}, example.members)
    (answers,) = oracle.call("assign", groups=[group.as_json()], orders=ORDERS)
    for name in example.assignors:
        assert all(short(answer) == example.result for answer in answers[name]), name


def judge(assignor: Assignor, group: GroupCase, answers: Sequence[Any], where: str) -> str:
    """What ours is beside Java's, in words; raises AssertionError where it is worse than that."""
    ours = owned_by(assignor.assign(group.partitions, group.subscriptions(assignor)))
    assert fault(assignor, group, ours) is None, where
    theirs = [owned_by(answer) for answer in answers if not isinstance(answer, str)]
    is_sound = len(theirs) == len(answers) and not any(fault(assignor, group, answer) for answer in theirs)
    if theirs and all(ours == answer for answer in theirs) and is_sound:
        return SAME
    if (known := flaw(assignor, group)) is not None and not (is_sound and ours == theirs[0]):
        return f"Java {known}"
    assert is_sound, where
    assert any(answer != theirs[0] for answer in theirs), f"{where}: Java's answer is always the same, and another one"
    assert balance(ours).score <= balance(theirs[0]).score, where
    assert kept(group, ours) >= kept(group, theirs[0]), where
    if ours == theirs[0]:
        return "equal to Java's, which depends on the order of its maps"
    return "as balanced and sticky as Java's, which depends on the order of its maps"


def owned_by(answer: Mapping[str, Sequence[Sequence[Any]]]) -> Owned:
    return {member: frozenset(TopicPartition(*tp) for tp in partitions) for member, partitions in answer.items()}


def fault(assignor: Assignor, group: GroupCase, owned: Owned) -> str | None:
    """Why an assignment can't be one."""
    if owned.keys() != group.members.keys():
        return "not for these members"
    everything = Counter(tp for partitions in owned.values() for tp in partitions)
    if everything and max(everything.values()) > 1:
        return "a partition has two members"
    read = {topic for said in group.members.values() for topic in said.topics}
    there = {TopicPartition(topic, index) for topic in read for index in range(len(group.topics.get(topic, ())))}
    if not everything.keys() <= there:
        return "a partition does not exist"
    if any(tp.topic not in group.members[member].topics for member, partitions in owned.items() for tp in partitions):
        return "a member gets what it does not read"
    waiting = {tp for said in group.members.values() for tp in said.owned} if assignor.name.startswith("coop") else ()
    return None if there - everything.keys() <= set(waiting) else "a partition has no member"


def flaw(assignor: Assignor, group: GroupCase) -> str | None:
    """What Java gets wrong where members say such things, so that its answers are not to be followed.

    It keeps partitions that are gone as long as their topic is there, and then gives others away twice, or fails. If
    the members that its map has first read nothing, it takes them for readers of all topics. And while it balances, it
    gives partitions back to who had them in an older generation without looking whether it still reads the topic.
    """
    if "sticky" not in assignor.name:
        return None
    claims = [(tp, said) for said in group.members.values() for tp in said.owned if tp.topic in group.topics]
    if any(tp.partition >= len(group.topics[tp.topic]) for tp, _ in claims):
        return "keeps partitions that are gone"
    if not all(said.topics for said in group.members.values()):
        return "gives partitions to members without topics"
    newest = max(said.generation for said in group.members.values())
    if any(said.generation < newest and tp.topic not in said.topics for tp, said in claims):
        return "gives partitions back to who does not read them any more"
    return None


def kept(group: GroupCase, owned: Owned) -> int:
    return sum(len(owned[member].intersection(said.owned)) for member, said in group.members.items())
