"""The worked examples of assignments in the design documents, with the expected results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aioprod.group.assignors import Subscription
from tests.support.assignments import parsed, readers

__all__ = ["EXAMPLES", "Example"]


@dataclass(frozen=True, slots=True)
class Example:
    """Topics with their number of partitions, members, and what each gets, as `t0p1 t1p0`.

    Java's answer is the one to give: where the document has another one, `document` is that.
    """

    name: str
    assignors: tuple[str, ...]
    topics: Mapping[str, int]
    members: Mapping[str, Subscription]
    result: Mapping[str, str]
    document: Mapping[str, str] | None = None


STICKY = ("sticky", "cooperative-sticky")
FOUR = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
DEALT = {"c0": "t0p0 t1p1 t3p0", "c1": "t0p1 t2p0 t3p1", "c2": "t1p0 t2p1"}
UNEVEN = {"t0": 1, "t1": 2, "t2": 3}
UNEVEN_TOPICS = {"c0": ["t0"], "c1": ["t0", "t1"], "c2": ["t0", "t1", "t2"]}
BEST = {"c0": "t0p0", "c1": "t1p0 t1p1", "c2": "t2p0 t2p1 t2p2"}


def _uneven(*members: str, owned: Mapping[str, str] | None = None) -> dict[str, Subscription]:
    generation = -1 if owned is None else 1
    return {
        member: Subscription(UNEVEN_TOPICS[member], parsed((owned or {}).get(member, "")), generation)
        for member in members
    }


EXAMPLES = (
    Example(
        "range, 4 partitions each",
        ("range",),
        {"t0": 4, "t1": 4},
        readers("c0", "c1", topics=["t0", "t1"]),
        {"c0": "t0p0 t0p1 t1p0 t1p1", "c1": "t0p2 t0p3 t1p2 t1p3"},
    ),
    Example(
        "range, 3 partitions each",
        ("range",),
        {"t0": 3, "t1": 3},
        readers("c0", "c1", topics=["t0", "t1"]),
        {"c0": "t0p0 t0p1 t1p0 t1p1", "c1": "t0p2 t1p2"},
    ),
    Example(
        "round-robin, equal subscriptions",
        ("roundrobin",),
        {"t0": 3, "t1": 3},
        readers("c0", "c1", topics=["t0", "t1"]),
        {"c0": "t0p0 t0p2 t1p1", "c1": "t0p1 t1p0 t1p2"},
    ),
    Example(
        "round-robin, uneven subscriptions",
        ("roundrobin",),
        UNEVEN,
        _uneven("c0", "c1", "c2"),
        {"c0": "t0p0", "c1": "t1p0", "c2": "t1p1 t2p0 t2p1 t2p2"},
    ),
    Example(
        "sticky at first, as round-robin",
        ("roundrobin", *STICKY),
        FOUR,
        readers("c0", "c1", "c2", topics=list(FOUR)),
        DEALT,
    ),
    Example(
        "round-robin after c1 left",
        ("roundrobin",),
        FOUR,
        readers("c0", "c2", topics=list(FOUR)),
        {"c0": "t0p0 t1p0 t2p0 t3p0", "c2": "t0p1 t1p1 t2p1 t3p1"},
    ),
    # Both keep all they had, in the document and with Java. Which of c1's three go where was decided otherwise before
    # Kafka 2.6: now what is left is dealt in order to c0 up to its share, and to c2.
    Example(
        "sticky after c1 left",
        STICKY,
        FOUR,
        {member: Subscription(list(FOUR), parsed(DEALT[member]), 1) for member in ("c0", "c2")},
        {"c0": "t0p0 t0p1 t1p1 t3p0", "c2": "t1p0 t2p0 t2p1 t3p1"},
        document={"c0": "t0p0 t1p1 t2p0 t3p0", "c2": "t0p1 t1p0 t2p1 t3p1"},
    ),
    Example("sticky, uneven subscriptions", STICKY, UNEVEN, _uneven("c0", "c1", "c2"), BEST),
    Example(
        "round-robin after c0 left",
        ("roundrobin",),
        UNEVEN,
        _uneven("c1", "c2"),
        {"c1": "t0p0 t1p1", "c2": "t1p0 t2p0 t2p1 t2p2"},
    ),
    Example(
        "sticky after c0 left",
        STICKY,
        UNEVEN,
        _uneven("c1", "c2", owned=BEST),
        {"c1": "t0p0 t1p0 t1p1", "c2": "t2p0 t2p1 t2p2"},
    ),
)
