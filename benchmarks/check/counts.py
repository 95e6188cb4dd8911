"""The rows of the check, their budgets, and the verdicts on their counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["ROUNDS", "ROWS", "THRESHOLD", "Row", "Verdict", "table", "verdicts"]

ROUNDS: Final = 5
"""The rounds to count; the cheapest is used, as effects of the broker's timing can only add instructions."""
THRESHOLD: Final = 2.0
"""The increase in percent that needs no reason; counts of the same code differ by far less."""


@dataclass(frozen=True, slots=True)
class Row:
    """One hot call: the number of calls of a round, and the budget of instructions per record.

    `reads`: it reads the topic that holds records already.
    """

    name: str
    records: int
    budget: int
    unit: str = "record"
    reads: bool = False


ROWS: Final = {
    row.name: row
    for row in (
        Row("nowait", 10_000, 3670),
        Row("keyed", 10_000, 4130),
        Row("submit", 10_000, 5300),
        Row("send_many", 40_000, 295),
        Row("send_arrow", 40_000, 266),
        Row("keyed_many", 40_000, 570),
        Row("keyed_arrow", 40_000, 567),
        Row("idle", 200, 72_500, "request"),
        Row("produce", 200_000, 612, "line"),
        Row("read", 20_000, 3330, reads=True),
        Row("read_arrow", 20_000, 805, reads=True),
        Row("member", 20_000, 3880, reads=True),
        Row("lists", 20_000, 2010, reads=True),
    )
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The instructions of one row per record, before and now."""

    row: Row
    base: float
    now: float
    threshold: float

    @property
    def change(self) -> float:
        """The increase in percent."""
        return 100 * (self.now / self.base - 1)

    @property
    def dearer(self) -> bool:
        """Whether the increase needs a reason."""
        return self.change > self.threshold

    @property
    def over_budget(self) -> bool:
        """Whether the row exceeds its budget, which no reason allows."""
        return self.now > self.row.budget


def verdicts(base: Mapping[str, int], now: Mapping[str, int], threshold: float) -> list[Verdict]:
    """Compare the instructions per record of each row."""
    return [
        Verdict(row, base[name] / row.records, now[name] / row.records, threshold)
        for name, row in ROWS.items()
        if name in now
    ]


def table(found: list[Verdict]) -> str:
    """Return the counts as a table of text."""
    lines = [f"{'instructions':<24}{'base':>9}{'now':>9}{'change':>9}{'budget':>9}"]
    for verdict in found:
        row = verdict.row
        what = f"{row.name}, a {row.unit}"
        line = f"{what:<24}{verdict.base:>9,.0f}{verdict.now:>9,.0f}{verdict.change:>+8.2f}%{row.budget:>9,}"
        if verdict.over_budget:
            line += "  over budget"
        elif verdict.dearer:
            line += f"  more than {verdict.threshold:g}% dearer"
        lines.append(line)
    return "\n".join(lines)
