"""What is counted, what it may cost, and what to say of the counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["ROUNDS", "ROWS", "THRESHOLD", "Row", "Verdict", "table", "verdicts"]

ROUNDS: Final = 5
"""That are counted, of which the cheapest stands: what depends on the broker's time is only ever too much."""
THRESHOLD: Final = 2.0
"""By how many percent a row may get dearer without a reason: counts of the same code differ by far less."""


@dataclass(frozen=True, slots=True)
class Row:
    """One hot call: how many of it are a round, and how many instructions each may take; None: no limit yet."""

    name: str
    records: int
    budget: int | None
    unit: str = "record"


ROWS: Final = {
    row.name: row
    for row in (
        Row("nowait", 10_000, 4000),
        Row("keyed", 10_000, 4700),
        Row("submit", 10_000, 5300),
        Row("send_many", 40_000, 400),
        Row("send_arrow", 40_000, 450),
        Row("idle", 200, None, "request"),
    )
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Instructions of one row a record, of the base and now. Rows without a budget are shown and not judged."""

    row: Row
    base: float
    now: float
    threshold: float

    @property
    def change(self) -> float:
        """In percent; more is dearer."""
        return 100 * (self.now / self.base - 1)

    @property
    def dearer(self) -> bool:
        """Whether it needs a reason."""
        return self.row.budget is not None and self.change > self.threshold

    @property
    def over_budget(self) -> bool:
        """Whether it is too dear, whatever the reason."""
        return self.row.budget is not None and self.now > self.row.budget


def verdicts(base: Mapping[str, int], now: Mapping[str, int], threshold: float) -> list[Verdict]:
    """The instructions of rounds, by row, a record and side by side."""
    return [
        Verdict(row, base[name] / row.records, now[name] / row.records, threshold)
        for name, row in ROWS.items()
        if name in now
    ]


def table(found: list[Verdict]) -> str:
    """The counts as people read them."""
    lines = [f"{'instructions':<24}{'base':>9}{'now':>9}{'change':>9}{'budget':>9}"]
    for verdict in found:
        row = verdict.row
        budget = "-" if row.budget is None else f"{row.budget:,}"
        what = f"{row.name}, a {row.unit}"
        line = f"{what:<24}{verdict.base:>9,.0f}{verdict.now:>9,.0f}{verdict.change:>+8.2f}%{budget:>9}"
        if verdict.over_budget:
            line += "  over budget"
        elif verdict.dearer:
            line += f"  more than {verdict.threshold:g}% dearer"
        lines.append(line)
    return "\n".join(lines)
