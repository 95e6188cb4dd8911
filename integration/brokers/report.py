"""The results as a table. `python -m integration.brokers.report` writes docs/brokers.md from the stored results."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from integration.brokers.broker import release_of
from integration.brokers.checks import CHECKS
from integration.brokers.registry import Found

__all__ = ["RESULTS", "Results", "evidence", "keep", "kept", "main", "page", "table", "write"]

RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = Path(__file__).parents[2] / "docs" / "brokers.md"
BEGIN: Final = "<!-- table: made by make brokers WRITE=1 -->"
END: Final = "<!-- table end -->"


@dataclass(slots=True)
class Results:
    """What became of the checks on one version, by their names; or why there is nothing.

    `not_run`: this machine lacks something. `not_started`: the broker did not come up, which is a flaw.
    """

    name: str
    found: dict[str, Found] = field(default_factory=dict)
    not_run: str = ""
    not_started: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_flaws(self) -> bool:
        return bool(self.not_started) or any(not found.as_expected for found in self.found.values())

    def cell(self, check: str) -> str:
        """What the table says of a check."""
        if self.not_run or self.not_started:
            return "not run" if self.not_run else "**not started**"
        found = self.found.get(check)
        if found is None:
            return "-"
        return found.outcome if found.as_expected else f"**{found.outcome}**"


def table(results: Sequence[Results]) -> list[str]:
    """Lines of Markdown: a row per check, a column per version."""
    rows = [["", *(one.name for one in results)], ["---" for _ in range(len(results) + 1)]]
    names = [check.name for check in CHECKS if any(check.name in one.found for one in results)]
    rows += [[name, *(one.cell(name) for one in results)] for name in names or ["all"]]
    return [f"| {' | '.join(row)} |" for row in rows]


def evidence(results: Sequence[Results]) -> list[str]:
    """What did not run, and what was not as expected, with the error."""
    lines = []
    for one in results:
        if one.not_run or one.not_started:
            lines.append(f"{one.name}: {f'not run: {one.not_run}' if one.not_run else one.not_started}")
        lines += [
            f"{one.name}, {name}: {found.outcome}: {found.said}"
            for name, found in one.found.items()
            if not found.as_expected
        ]
    return lines


def keep(results: Results) -> None:
    """Write the results of one version; a later run of the same takes their place."""
    RESULTS.mkdir(exist_ok=True)
    rows = {name: found._asdict() for name, found in results.found.items()}
    (RESULTS / f"{results.name}.json").write_text(json.dumps({**asdict(results), "found": rows}, indent=1) + "\n")


def kept() -> list[Results]:
    """All that is kept, from the oldest release to the newest."""
    read = [json.loads(path.read_text()) for path in RESULTS.glob("*.json")]
    results = [Results(**{**one, "found": {name: Found(**row) for name, row in one["found"].items()}}) for one in read]
    return sorted(results, key=lambda one: release_of(one.name))


def page(text: str, results: Sequence[Results]) -> str:
    """The docs page with the table of these results in place of the one that it has."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [BEGIN, *table(results), "", *_circumstances(results), END]
    return before + "\n".join(lines) + after


def _circumstances(results: Sequence[Results]) -> list[str]:
    runs: dict[str, list[str]] = {}
    for one in results:
        place = one.environment
        runs.setdefault(f"{place['date']} at commit {place['commit']}, {place['machine']}", []).append(one.name)
    return [f"- {', '.join(names)}: {run}." for run, names in runs.items()]


def write() -> None:
    """Make the table of the docs page anew."""
    PAGE.write_text(page(PAGE.read_text(), kept()))


def main() -> int:
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
