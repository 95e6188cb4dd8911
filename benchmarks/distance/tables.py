"""The tables: one of each cell, and one of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from aioprod.console.tables import Table
from benchmarks.distance.cells import Cell, Contender
from benchmarks.distance.job import Measurement

__all__ = ["Found", "best_of", "of_all", "of_cell"]


@dataclass(slots=True)
class Found:
    """The runs of a contender in a cell; after a `failure` there are no more."""

    contender: Contender
    runs: list[Measurement] = field(default_factory=list)
    failure: str = ""

    def figure(self, of: Callable[[Measurement], float | None]) -> float | None:
        """The median of a figure; None without runs."""
        figures = [figure for one in self.runs if (figure := of(one)) is not None]
        return median(figures) if figures else None

    @property
    def rank(self) -> float:
        """The more the better: records a second, or the time to the acknowledgement if that is measured."""
        p50_ms = self.figure(lambda one: one.p50_ms)
        records_per_s = self.figure(lambda one: one.records_per_s)
        return -1 if records_per_s is None else records_per_s if p50_ms is None else 1 / p50_ms


def best_of(found: Sequence[Found]) -> list[Found]:
    """Of the contenders with the same title only the best, in the order of the titles."""
    best: dict[str, Found] = {}
    for one in found:
        title = one.contender.title
        best[title] = max(best.get(title, one), one, key=lambda known: known.rank)
    return list(best.values())


def of_cell(cell: Cell, found: Sequence[Found], *, is_timed: bool) -> Table:
    """The table of a cell, `is_timed` with the times from a record's call to its acknowledgement."""
    times = ("p50 ms", "p99 ms") if is_timed else ()
    headers = ("contender", "records/s", "MB/s", *times, "CPU us a record", "peak MB", "settings", "records may")
    return Table(cell.title, "", headers, [_row(cell, one, is_timed=is_timed) for one in found])


def _row(cell: Cell, one: Found, *, is_timed: bool) -> tuple[object, ...]:
    times = (
        _rounded(one.figure(lambda run: run.p50_ms), 2),
        _rounded(one.figure(lambda run: run.p99_ms), 2),
    )
    return (
        one.contender.title,
        _rounded(one.figure(lambda run: run.records_per_s)),
        _rounded(one.figure(lambda run: run.records_per_s * cell.value_size / 1e6), 2),
        *(times if is_timed else ()),
        _rounded(one.figure(lambda run: run.cpu_us), 2),
        _rounded(one.figure(lambda run: run.peak_mb)),
        ", ".join(f"{name}={value}" for name, value in one.contender.settings.items()),
        f"failed: {one.failure}" if one.failure else one.contender.may,
    )


def of_all(heading: str, found: Mapping[Cell, Sequence[Found]], *, is_timed: bool) -> Table:
    """The table of all cells: records a second of each contender, or the median times in ms."""
    titles = list(dict.fromkeys(one.contender.title for row in found.values() for one in row))
    rows: list[tuple[object, ...]] = []
    for cell, row in found.items():
        figures = {
            one.contender.title: _rounded(one.figure(lambda run: run.p50_ms), 2)
            if is_timed
            else _rounded(one.figure(lambda run: run.records_per_s))
            for one in row
        }
        rows.append((cell.title, *(figures[title] for title in titles)))
    return Table(heading, "p50 ms" if is_timed else "Records a second", ("cell", *titles), rows)


def _rounded(figure: float | None, digits: int | None = None) -> float | str:
    return "" if figure is None else round(figure, digits)
