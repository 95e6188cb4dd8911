"""The events of a group, drawn from a seed: members that join, leave and crash."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["STRATEGIES", "Event", "Strategy", "What", "plan"]

OURS: Final = "aioprod"
JAVA: Final = "java"
CONFLUENT: Final = "confluent"
TRANSFORMER: Final = "transformer"

_MEMBERS_MIN: Final = 3
_MEMBERS_MAX: Final = 5
_OVERLAPS_SHARE: Final = 0.25


class What(StrEnum):
    """What happens to a member."""

    JOIN = "join"
    LEAVE = "leave"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Strategy:
    """The assignors that each kind of member offers, by their names in the protocol; without any the brokers assign
    (KIP-848), from Kafka 4.0 on."""

    name: str
    offers: dict[str, tuple[str, ...]]
    version_min: int = 0

    def works_with(self, version: str) -> bool:
        """Whether brokers of this version of Kafka can do it."""
        return int(version.partition(".")[0]) >= self.version_min

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.offers)


# librdkafka has no "sticky"; and what it offers must be all eager or all cooperative.
_ALL: Final = (OURS, JAVA, CONFLUENT)
STRATEGIES: Final = {
    strategy.name: strategy
    for strategy in (
        *(Strategy(name, dict.fromkeys(_ALL, (name,))) for name in ("range", "roundrobin", "cooperative-sticky")),
        Strategy("sticky", dict.fromkeys((OURS, JAVA), ("sticky",))),
        Strategy(
            "defaults",
            {
                OURS: ("cooperative-sticky", "range"),
                JAVA: ("range", "cooperative-sticky"),
                CONFLUENT: ("range", "roundrobin"),
            },
        ),
        # A group that can be cooperative until members come who can't.
        Strategy("changing", {OURS: ("cooperative-sticky", "range"), JAVA: ("range",), CONFLUENT: ("range",)}),
        Strategy("brokers assign", dict.fromkeys(_ALL, ()), version_min=4),
        Strategy("transactions", {TRANSFORMER: ("cooperative-sticky",)}),
    )
}


@dataclass(frozen=True, slots=True)
class Event:
    """It happens to the member `name`, made for it if it joins; `overlaps`: the next comes before this is settled.

    `founds`: the member joins a group that is empty, and so will lead it.
    """

    what: What
    kind: str
    name: str
    overlaps: bool = False
    founds: bool = False

    @property
    def title(self) -> str:
        return "first join" if self.founds else str(self.what)


def plan(kinds: Sequence[str], events: int, seed: int) -> list[Event]:
    """`events` events in a part for each kind, which leads the group until it ends; at the end members are left.

    In each part the leader comes first, then one of each other kind, then what chance says; before the next part the
    leader is gone, by a crash or by leaving, and then all the others.
    """
    drawing = _Drawing(random.Random(seed))
    for index, kind in enumerate(kinds):
        until = events * (index + 1) // len(kinds)
        drawing.part([kind, *(other for other in kinds if other != kind)], until, is_last=index == len(kinds) - 1)
    return drawing.events


class _Drawing:
    """The events drawn so far, and the members that are alive after them, the leader first."""

    def __init__(self, chance: random.Random) -> None:
        self.events: list[Event] = []
        self._chance = chance
        self._alive: list[Event] = []
        self._names: Counter[str] = Counter()

    def part(self, kinds: Sequence[str], until: int, *, is_last: bool) -> None:
        """Go on until there are `until` events; the first of `kinds` leads."""
        self._join(kinds[0], founds=True)
        waiting = list(kinds[1:])
        while until - len(self.events) > (0 if is_last else len(self._alive)):
            if waiting:
                self._join(waiting.pop(0))
            else:
                self._draw(kinds)
        if not is_last:
            self._end()

    def _join(self, kind: str, *, overlaps: bool = False, founds: bool = False) -> None:
        self._names[kind] += 1
        joining = Event(What.JOIN, kind, f"{kind}-{self._names[kind]}", overlaps, founds)
        self._alive.append(joining)
        self.events.append(joining)

    def _draw(self, kinds: Sequence[str]) -> None:
        """What chance says, but nothing that happens to the leader."""
        overlaps = self._chance.random() < _OVERLAPS_SHARE
        alive = len(self._alive)
        if alive < _MEMBERS_MIN or (alive < _MEMBERS_MAX and self._chance.random() < 0.5):
            self._join(self._chance.choice(kinds), overlaps=overlaps)
        else:
            self._gone(self._chance.choice((What.CRASH, What.LEAVE)), self._chance.randrange(1, alive), overlaps)

    def _end(self) -> None:
        """The leader first, and then all the others at once."""
        self._gone(self._chance.choice((What.CRASH, What.LEAVE)), 0, overlaps=len(self._alive) == 1)
        while self._alive:
            self._gone(What.LEAVE, 0, overlaps=True)

    def _gone(self, what: What, index: int, overlaps: bool) -> None:
        gone = self._alive.pop(index)
        self.events.append(Event(what, gone.kind, gone.name, overlaps))
