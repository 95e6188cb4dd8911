"""Random consumer groups, each over several rebalances."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aioprod.group.assignors import StickyAssignor, Subscription
from integration.support.group_cases import GroupCase

__all__ = ["random_groups"]

MEMBERS_MAX = 30
TOPICS_MAX = 20
PARTITIONS_MAX = 200
ROUNDS = 5
RACKS = ("a", "b", "c")


def random_groups(source: random.Random) -> Iterator[GroupCase]:
    """An endless stream of groups: each has some rebalances, in which members own the partitions of the last one."""
    while True:
        life = _Life(source)
        for _ in range(ROUNDS):
            yield life.group
            life.next_round()


class _Life:
    """A group that changes between rebalances."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._has_racks = source.random() < 0.4
        self._is_even = source.random() < 0.4
        self._generation = source.randint(0, 9)
        self._named = 0
        self._style = source.choice(["c{}", "consumer-{}", "{:08x}", "Ω{}", "\N{MATHEMATICAL SCRIPT CAPITAL X}{}"])
        sizes = self._sizes()
        style = source.choice(["t{}", "orders-{}", "{}.log"])
        self._topics = {style.format(index): [self._racks() for _ in range(size)] for index, size in enumerate(sizes)}
        self._members: dict[str, Subscription] = {}
        self._old: set[str] = set()
        for _ in range(source.randint(1, source.choice([3, 8, MEMBERS_MAX]))):
            self._join()

    @property
    def group(self) -> GroupCase:
        topics = {topic: list(racks) for topic, racks in self._topics.items()}
        return GroupCase(topics, dict(sorted(self._members.items())), frozenset(self._old & self._members.keys()))

    def next_round(self) -> None:
        """Give most members their new partitions, then change members and topics a little."""
        group = self.group
        assigned = StickyAssignor().assign(group.partitions, group.members)
        self._generation += 1
        for member, owned in assigned.items():
            if self._source.random() < 0.9:
                self._change(member, owned=tuple(owned), generation=self._generation)
        self._change_members()
        self._change_topics()
        if self._source.random() < 0.1:
            self._add_conflicting_claim()

    def _sizes(self) -> list[int]:
        left = PARTITIONS_MAX
        sizes: list[int] = []
        for _ in range(self._source.randint(1, self._source.choice([3, TOPICS_MAX]))):
            size = min(left, self._source.choice([0, 1, 3, 6, 10, 20, 100]))
            sizes.append(self._source.randint(min(size, 1), size))
            left -= sizes[-1]
        return sizes

    def _racks(self) -> list[str]:
        return self._source.sample(RACKS, self._source.randint(1, 3)) if self._has_racks else []

    def _some_topics(self) -> tuple[str, ...]:
        everything = list(self._topics)
        if self._is_even:
            return tuple(everything)
        return tuple(
            self._source.sample(everything, self._source.randint(self._source.random() > 0.02, len(everything)))
        )

    def _join(self) -> None:
        rack = self._source.choice([*RACKS, *RACKS, None]) if self._has_racks else None
        instance = f"i{self._source.randint(0, 99):02}-{self._named}" if self._source.random() < 0.2 else None
        # The order of the ids is not that in which members join.
        member = self._style.format(self._source.randrange(100) * 100 + self._named)
        self._members[member] = Subscription(self._some_topics(), rack=rack, group_instance_id=instance)
        if self._source.random() < 0.03:
            self._old.add(member)
        self._named += 1

    def _change(self, member: str, **what: Any) -> None:
        self._members[member] = replace(self._members[member], **what)

    def _change_members(self) -> None:
        for member in list(self._members):
            if len(self._members) > 1 and self._source.random() < 0.1:
                del self._members[member]
            elif not self._is_even and self._source.random() < 0.1:
                self._change(member, topics=self._some_topics())
            elif self._source.random() < 0.02:
                self._change(member, generation=-1)
        while len(self._members) < MEMBERS_MAX and self._source.random() < 0.6:
            self._join()

    def _change_topics(self) -> None:
        """Mostly add partitions; sometimes delete a topic, rarely some of its partitions, as re-creation does."""
        for topic, racks in list(self._topics.items()):
            chance = self._source.random()
            if chance < 0.02 and len(self._topics) > 1:
                del self._topics[topic]
            elif chance < 0.025:
                del racks[len(racks) // 2 :]
            elif chance < 0.1 and sum(map(len, self._topics.values())) < PARTITIONS_MAX:
                racks.append(self._racks())

    def _add_conflicting_claim(self) -> None:
        """Let a member claim partitions that others own, too."""
        everything = [tp for subscription in self._members.values() for tp in subscription.owned]
        member = self._source.choice(list(self._members))
        claimed = self._source.sample(everything, min(len(everything), self._source.randint(1, 5)))
        self._change(member, owned=tuple(dict.fromkeys([*self._members[member].owned, *claimed])))
