"""How long an unaffected partition made no progress while another broker was down."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from integration.chaos.brokers import Change
from integration.chaos.faults import Down
from integration.chaos.ledger import Ledger, Outcome, Place

__all__ = ["Stall", "longest_stalls"]


class Stall(NamedTuple):
    """The longest time without a delivery, where, and beside which broker that was away.

    `cases` is how many pairs of a partition and an outage were looked at.
    """

    seconds: float
    place: Place
    leader: int
    away: int
    cases: int


def longest_stalls(ledger: Ledger, downs: Sequence[Down], changes: Sequence[Change]) -> dict[str, Stall]:
    """By topic the longest stall of a healthy partition.

    Healthy is a partition for an outage if from its start to its end the same broker led it, and that one was not
    away itself. A pause between two deliveries counts as far as it lies in the outage: before and behind it the
    partition's own broker may have been away.
    """
    longest: dict[str, Stall] = {}
    for place, records in ledger.records.items():
        times = sorted(told.told_at for told in records if told.outcome is Outcome.DELIVERED)
        moves = [change for change in changes if change.place == place]
        for down in downs:
            leader = _steady_leader(moves, down)
            if leader is None or _away(downs, leader, down):
                continue
            before = longest.get(place.topic, Stall(0.0, place, leader, down.broker_id, 0))
            found = _longest_gap(times, down)
            worst = before if before.seconds >= found else Stall(found, place, leader, down.broker_id, 0)
            longest[place.topic] = worst._replace(cases=before.cases + 1)
    return longest


def _steady_leader(moves: Iterable[Change], down: Down) -> int | None:
    """Who led throughout, or None if that changed or nobody did."""
    leader = -1
    for move in moves:
        if move.at >= down.end:
            break
        if move.at > down.start:
            return None
        leader = move.leader
    return leader if leader > 0 else None


def _away(downs: Iterable[Down], broker_id: int, during: Down) -> bool:
    return any(d.broker_id == broker_id and d.start < during.end and during.start < d.end for d in downs)


def _longest_gap(times: Sequence[float], down: Down) -> float:
    during = times[bisect_left(times, down.start) : bisect_right(times, down.end)]
    return max(after - before for before, after in pairwise([down.start, *during, down.end]))
