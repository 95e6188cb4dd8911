"""The balance of an assignment, and the moves of a rebalance, as paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from aioprod.console.tables import Part, Table, percent, shortened, text_of
from aioprod.group.assignors.comparison import ROWS_SHOWN, Balance, Cause, Comparison, Move
from aioprod.types import TopicPartition

__all__ = ["balance_parts", "balance_text", "comparison_parts", "comparison_text", "ranges"]

_TEXT_SHOWN: Final = 72
"""The length at which a list of partitions is cut."""

_CAUSES: Final[dict[Cause, str]] = {
    "left": "because the member left",
    "joined": "to a member that joined",
    "balance": "between members that stay",
}


def balance_parts(balance: Balance, rows_max: int | None = ROWS_SHOWN) -> Iterator[Part]:
    """The members with their partitions, and the balance."""
    headers = ("member", "partitions", *(["load"] if balance.is_weighted else []), "which")
    rows = [
        (
            member,
            len(balance.owned[member]),
            *([balance.loads[member]] if balance.is_weighted else []),
            ranges(balance.owned[member], rows_max),
        )
        for member in _in_order(balance, balance.owned, rows_max)
    ]
    shown, left_out = shortened(rows, rows_max)
    yield Table("Members", _note(left_out), headers, shown, left_out)
    yield _balances({"": balance})


def comparison_parts(comparison: Comparison, rows_max: int | None = ROWS_SHOWN) -> Iterator[Part]:
    """The moves, the members before and after, and both balances."""
    yield _headline(comparison)
    for what, partitions in (("New", comparison.new), ("Gone", comparison.gone)):
        if partitions:
            yield f"{what} partitions: {len(partitions):,} ({ranges(partitions, rows_max)})."
    if comparison.moved:
        yield _moves(comparison, rows_max)
    yield _members(comparison, rows_max)
    yield _balances({"before": comparison.before, "after": comparison.after})


def balance_text(balance: Balance, rows_max: int | None) -> str:
    """The parts of `balance_parts` as one text."""
    return text_of(balance_parts(balance, rows_max))


def comparison_text(comparison: Comparison, rows_max: int | None) -> str:
    """The parts of `comparison_parts` as one text."""
    return text_of(comparison_parts(comparison, rows_max))


def ranges(partitions: Iterable[TopicPartition], rows_max: int | None = None) -> str:
    """Sorted partitions as `clicks 0 2; orders 0-3`; cut to `_TEXT_SHOWN` characters unless `rows_max` is None."""
    text = "; ".join(
        f"{topic} {' '.join(_runs([tp.partition for tp in of_topic]))}"
        for topic, of_topic in groupby(partitions, key=lambda tp: tp.topic)
    )
    return text if rows_max is None or len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}..."


def _runs(indexes: list[int]) -> Iterator[str]:
    # Indexes without a gap between them differ from their place in the list by the same number.
    for _, run in groupby(enumerate(indexes), key=lambda placed: placed[1] - placed[0]):
        first, *rest = (index for _, index in run)
        yield f"{first}-{rest[-1]}" if rest else str(first)


def _headline(comparison: Comparison) -> str:
    moved, could = len(comparison.moved), len(comparison.moved) + comparison.kept
    if not could:
        return "No partition had a member before and has one after."
    by_load = f", {percent(comparison.moved_share)} of the load" if comparison.after.is_weighted else ""
    causes = [f"{count:,} {words}" for cause, words in _CAUSES.items() if (count := comparison.moved_because(cause))]
    why = f": {', '.join(causes)}" if causes else ""
    return f"{moved:,} of {could:,} partitions moved ({percent(moved, could)}{by_load}){why}."


def _moves(comparison: Comparison, rows_max: int | None) -> Table:
    pairs: dict[tuple[str, str], list[Move]] = {}
    for move in comparison.moved:
        pairs.setdefault((move.source, move.target), []).append(move)
    weighted = comparison.after.is_weighted
    rows = [
        (
            *pair,
            len(moves),
            *([sum(move.size for move in moves)] if weighted else []),
            ranges((move.partition for move in moves), rows_max),
        )
        for pair, moves in sorted(pairs.items(), key=lambda each: -sum(move.size for move in each[1]))
    ]
    shown, left_out = shortened(rows, rows_max)
    headers = ("from", "to", "partitions", *(["load"] if weighted else []), "which")
    return Table("Moved", "Most first.", headers, shown, left_out)


def _members(comparison: Comparison, rows_max: int | None) -> Table:
    before, after = comparison.before, comparison.after
    stays = dict.fromkeys(comparison.joined, "joined") | dict.fromkeys(comparison.left, "left")
    everyone = dict.fromkeys([*after.owned, *comparison.left])
    rows = []
    for member in _in_order(after, everyone, rows_max):
        counts = [len(each.owned.get(member, ())) for each in (before, after)]
        loads = [each.loads.get(member, 0) for each in (before, after)] if after.is_weighted else []
        note = [stays.get(member, "")] if stays else []
        rows.append((member, *note, *counts, *loads, ranges(after.owned.get(member, ()), rows_max)))
    shown, left_out = shortened(rows, rows_max)
    load = ("load before", "load after") if after.is_weighted else ()
    headers = ("member", *([""] if stays else []), "before", "after", *load, "which")
    return Table("Members", f"Partitions before and after. {_note(left_out)}".rstrip(), headers, shown, left_out)


def _in_order(balance: Balance, members: Iterable[str], rows_max: int | None) -> list[str]:
    """Members by name, or from the busiest to the least busy when not all are shown."""
    known = list(members)
    if rows_max is None or len(known) <= rows_max:
        return known
    return sorted(known, key=lambda member: -balance.loads.get(member, 0))


def _note(left_out: int) -> str:
    return "The busiest and the idlest of them." if left_out else ""


def _balances(balances: dict[str, Balance]) -> Table:
    weighted = any(balance.is_weighted for balance in balances.values())
    load = "the sizes of its partitions, added up" if weighted else "the number of its partitions"
    named = len(balances) > 1
    headers = ("members", "partitions", "largest", "mean", "least", "spread", "largest/mean")
    rows = [
        (
            *([name] if named else []),
            len(balance.owned),
            len(balance.sizes),
            balance.largest,
            float(balance.mean),
            balance.least,
            balance.spread,
            float(balance.skew),
        )
        for name, balance in balances.items()
    ]
    says = f"The load of a member is {load}. Largest/mean: 1 is even."
    return Table("Balance", says, ("", *headers) if named else headers, rows)
