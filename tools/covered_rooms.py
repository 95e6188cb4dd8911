"""`python -m tools.covered_rooms REPORT.json MINIMUM`: coverage of each room from slipcover's JSON.

Ends with 1 where less than MINIMUM percent of all lines, or of all branches, are covered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["Covered", "main", "rooms"]


@dataclass(frozen=True, slots=True)
class Covered:
    """How many lines and branches there are, and how many of them ran."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    @classmethod
    def of(cls, summary: Mapping[str, int]) -> Covered:
        """The figures of one file."""
        return cls(
            summary["covered_lines"] + summary["missing_lines"],
            summary["covered_lines"],
            summary["covered_branches"] + summary["missing_branches"],
            summary["covered_branches"],
        )

    def __add__(self, other: Covered) -> Covered:
        return Covered(
            self.lines + other.lines,
            self.lines_run + other.lines_run,
            self.branches + other.branches,
            self.branches_run + other.branches_run,
        )

    @property
    def line_percent(self) -> float:
        """Of the lines."""
        return 100 * self.lines_run / self.lines if self.lines else 100.0

    @property
    def branch_percent(self) -> float:
        """Of the branches."""
        return 100 * self.branches_run / self.branches if self.branches else 100.0

    @property
    def percent(self) -> float:
        """Of lines and branches together."""
        size = self.lines + self.branches
        return 100 * (self.lines_run + self.branches_run) / size if size else 100.0

    def __str__(self) -> str:
        return f"{self.line_percent:6.1f} {self.branch_percent:9.1f}"


def rooms(report: Mapping[str, Any]) -> dict[str, Covered]:
    """The coverage of each folder of the package, and of its own modules under the package's name."""
    found: dict[str, Covered] = {}
    for path, file in sorted(report["files"].items()):
        parts = PurePosixPath(path).parts
        room = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        found[room] = found.get(room, Covered()) + Covered.of(file["summary"])
    return found


def main(arguments: list[str]) -> int:
    """Print the table; returns the exit status."""
    report, minimum = json.loads(Path(arguments[0]).read_text()), float(arguments[1])
    print(f"{'room':<20} lines %  branches %")
    total = Covered()
    for room, covered in rooms(report).items():
        print(f"{room:<20} {covered}")
        total += covered
    print(f"{'all':<20} {total}")
    for what, percent in (("lines", total.line_percent), ("branches", total.branch_percent)):
        if percent < minimum:
            print(f"Only {percent:.1f} % of the {what} are covered; {minimum:g} % are the least.")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
