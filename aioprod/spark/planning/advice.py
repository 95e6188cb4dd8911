"""Which count and partitioner to take, and why, in words; also that no count helps, where none does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aioprod._words import counted
from aioprod.console.tables import key_text, percent
from aioprod.spark.planning.measures import Growth, HotKey, Layout

__all__ = ["Advice", "advise"]

_EVEN: Final = 1.25
"""Up to a fourth over the mean counts as even."""

_SAME: Final = 1.05


class Advice(NamedTuple):
    """The layout to take, and why."""

    layout: Layout
    text: str


def advise(
    layouts: Sequence[Layout], hot_keys: Sequence[HotKey], growth: Sequence[Growth], consumers: int | None
) -> Advice:
    """Choose among the layouts, the first of two equal ones; the text's sentences each have their numbers.

    With consumers: the fewest partitions with which the busiest member reads no more than it has to. Without: the most
    partitions that are still even, since growing later moves keys; the evenest if none is.
    """
    enough = [layout for layout in layouts if layout.count >= (consumers or 1)] or list(layouts)
    least = min(_strain(layout) for layout in enough)
    if consumers is not None:
        chosen = min((one for one in enough if _strain(one) <= least * _SAME), key=lambda one: one.count)
    elif even := [one for one in enough if _strain(one) <= _EVEN]:
        most = max(one.count for one in even)
        chosen = min((one for one in even if one.count == most), key=_strain)
    else:
        chosen = min(enough, key=_strain)
    return Advice(chosen, " ".join(_sentences(chosen, layouts, hot_keys, growth, consumers)))


def _strain(layout: Layout) -> float:
    """The busiest member's rows, or partition's where there are no members, by the mean."""
    return max(map(layout.member_skew, layout.members), default=layout.skew)


def _sentences(
    chosen: Layout,
    layouts: Sequence[Layout],
    hot_keys: Sequence[HotKey],
    growth: Sequence[Growth],
    consumers: int | None,
) -> Iterator[str]:
    place = f"{counted(chosen.count, 'partition')} with {chosen.partitioner}"
    readers = consumers or chosen.count
    bound = chosen.bound_share * readers
    if chosen.spread_rows == sum(chosen.rows):
        yield f"Take {place}: it looks at no key, so that every count is even, and no key keeps its order."
    elif bound > _EVEN:
        yield from _hopeless(chosen, hot_keys, consumers)
    elif consumers is not None:
        yield (
            f"Take {place}: the busiest of {consumers} members reads {_strain(chosen):.2f} times the mean, and no "
            "other of these counts makes that clearly less."
        )
    elif _strain(chosen) <= _EVEN:
        yield (
            f"Take {place}: the busiest one has {chosen.skew:.2f} times the mean ({percent(chosen.busiest_share)} of "
            "the rows), and more partitions now spare moving keys later; fewer do if fewer consumers read them."
        )
    else:
        yield (
            f"None of these counts is even. {place.capitalize()} come nearest: the busiest one has {chosen.skew:.2f} "
            f"times the mean ({percent(chosen.busiest_share)} of the rows)."
        )
    others = [one for one in layouts if one.partitioner == chosen.partitioner and one.count != chosen.count]
    if others:
        subject = "the busiest member reads" if consumers else "the busiest one has"
        (first, *more) = ((counted(one.count, "partition"), f"{_strain(one):.2f} times") for one in others)
        further = "".join(f", with {count} {strain}" for count, strain in more)
        yield f"With {first[0]} {subject} {first[1]} the mean{further}."
    if consumers is not None and chosen.count < consumers:
        yield f"There are fewer partitions than members: {consumers - chosen.count} of them would read nothing."
    if chosen.bytes_skew > _EVEN * chosen.skew:
        yield f"Its bytes are less even than its rows: {chosen.bytes_skew:.2f} times the mean."
    for step in growth:
        if (step.partitioner, step.count) == (chosen.partitioner, chosen.count):
            share = percent(step.rows, sum(chosen.rows))
            yield f"Growing to {step.to} later moves keys with {share} of the rows, which lose their order once."
    yield from _keyless(chosen, hot_keys)


def _hopeless(chosen: Layout, hot_keys: Sequence[HotKey], consumers: int | None) -> Iterator[str]:
    hottest = next((hot for hot in hot_keys if hot.rows == chosen.largest_rows), hot_keys[0])
    share = percent(chosen.bound_share)
    named = "The rows without key are" if hottest.key is None else f"The key {key_text(hottest.key)!r} alone is"
    yield (
        f"No number of partitions evens this out. {named} {share} of the rows, and one partition holds them all, "
        f"whatever the count: the busiest one can't get below {share}, which is "
        f"{chosen.bound_share * (consumers or chosen.count):.1f} times the mean of "
        f"{f'{consumers} members' if consumers else counted(chosen.count, 'partition')}."
    )
    yield (
        f"{counted(chosen.count, 'partition')} with {chosen.partitioner} do as well as more. What helps is another "
        "key: one that splits the hot one, if its rows need no order among each other."
    )


def _keyless(chosen: Layout, hot_keys: Sequence[HotKey]) -> Iterator[str]:
    without = sum(hot.rows for hot in hot_keys if hot.key is None)
    if not without or chosen.spread_rows == sum(chosen.rows):
        return
    share = percent(without, sum(chosen.rows))
    if chosen.spread_rows >= without:
        yield f"{share} of the rows have no key: they are spread, even by design, and have no order."
    else:
        yield (
            f"{share} of the rows have no key, and {chosen.partitioner} sends them all to one partition: its variant "
            "with _random in its name spreads them."
        )
