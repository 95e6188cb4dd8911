"""Compare our assignors with Java's, in time and memory: `python -m benchmarks.assignors`.

A group has 2,000 members and 10,000 partitions. The first round is that of a new group; before the second one 100
members leave and 100 join. Java's time is the best of its runs, as the JVM compiles code while it runs.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aioprod.group.assignors import ASSIGNORS, Assignor, Subscription
from integration.support.group_cases import GroupCase
from integration.support.java import JavaOracle

__all__ = ["SHAPES", "main"]

MEMBERS = 2_000
CHANGING = 100
TOPICS = {f"t{index}": 100 for index in range(100)}
NAMES = list(TOPICS)
RUNS = 5
RATIO_MAX = 5.0
"""The maximum ratio of our sticky assignors' time to Java's."""

SHAPES: Mapping[str, Callable[[int, random.Random], Sequence[str]]] = {
    "all topics": lambda number, source: NAMES,
    "all, or all but one": lambda number, source: NAMES[number % 2 :],
    "10 of 100": lambda number, source: source.sample(NAMES, 10),
    "10 of 20, some of 100": lambda number, source: source.sample(NAMES[: 20 if number % 20 else 100], 10),
    "the first 1 to 100": lambda number, source: NAMES[: 1 + number % 100],
}
"""The subscription of the member with this number."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The best time in seconds, and the peak memory in bytes."""

    seconds: float
    size: int


def rounds(shape: str) -> Iterator[tuple[str, dict[str, Subscription]]]:
    """Return the rounds: the new group, and the group after members left and joined."""
    source = random.Random(shape)
    said = [Subscription(SHAPES[shape](number, source)) for number in range(MEMBERS + CHANGING)]
    members = {f"member-{number}": subscription for number, subscription in enumerate(said)}
    new = dict(list(members.items())[:MEMBERS])
    yield "new", new
    owned = ASSIGNORS["sticky"].assign(TOPICS, new)
    yield (
        "next",
        {
            member: Subscription(members[member].topics, tuple(owned.get(member, ())), 1 if member in owned else -1)
            for member in list(members)[CHANGING:]
        },
    )


def our_cost(assignor: Assignor, group: GroupCase) -> Cost:
    """Measure our assignor in this process; memory in a separate run, as tracing it takes time."""
    partitions, members = dict(TOPICS), group.subscriptions(assignor)
    best = float("inf")
    for _ in range(RUNS):
        gc.collect()
        start = time.perf_counter()
        assignor.assign(partitions, members)
        best = min(best, time.perf_counter() - start)
    tracemalloc.start()
    assignor.assign(partitions, members)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Cost(best, peak)


def javas_cost(oracle: JavaOracle, name: str, group: GroupCase, limit_s: int) -> Cost | None:
    """Measure Java's assignor in the JVM; None if it did not finish. Slow assignors run once."""
    cost: Cost | None = None
    for runs in (1, RUNS):
        question = {"group": group.as_json(), "assignor": name, "runs": runs, "limit_s": limit_s}
        answer = oracle.call("time_assignor", **question)
        if answer is None:
            return None
        cost = Cost(min(answer["seconds"]), answer["bytes"])
        if cost.seconds > 1:
            break
    return cost


def _row(name: str, shape: str, kind: str, ours: Cost, java: Cost | None, limit_s: int) -> str:
    if java is None:
        theirs, ratio, size = f"> {limit_s:,}", f"< {ours.seconds / limit_s:.3f}x", ""
    else:
        theirs, ratio, size = f"{java.seconds:,.3f}", f"{ours.seconds / java.seconds:.2f}x", f"{java.size / 1e6:,.0f}"
    return f"{name:<20}{shape:<24}{kind:<6}{ours.seconds:>8.3f}{theirs:>9}{ratio:>9}{ours.size / 1e6:>8.0f}{size:>8}"


def main() -> int:
    """Print the table; return 1 if a sticky assignor exceeds the maximum ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assignors", description="Our assignors beside Java's.")
    parser.add_argument("--only", default="", metavar="WORD", help="assignors and shapes whose names contain it")
    parser.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="that Java may take; default: 60")
    arguments = parser.parse_args()
    print(f"{MEMBERS:,} members, {sum(TOPICS.values()):,} partitions\n")
    print(f"{'':<20}{'members read':<24}{'group':<6}{'ours s':>8}{'Java s':>9}{'ratio':>9}{'ours MB':>8}{'Java MB':>8}")
    is_slow = False
    for shape in SHAPES:
        for kind, members in rounds(shape):
            group = GroupCase({topic: [()] * count for topic, count in TOPICS.items()}, members)
            for name, assignor in ASSIGNORS.items():
                if arguments.only not in f"{name} {shape}":
                    continue
                ours = our_cost(assignor, group)
                # Each assignor has its own JVM, as a call continues to run after its time limit.
                with JavaOracle() as oracle:
                    java = javas_cost(oracle, name, group, arguments.limit)
                print(_row(name, shape, kind, ours, java, arguments.limit), flush=True)
                if "sticky" in name and java is not None and ours.seconds > RATIO_MAX * java.seconds:
                    is_slow = True
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
