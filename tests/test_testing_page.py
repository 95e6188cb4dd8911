"""The page that says where each test runs: it names every test file once, and nothing that is gone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "testing-aioprod.md"
NOWHERE = "-"


class Row(NamedTuple):
    """Files or folders of tests, and where they run."""

    paths: list[Path]
    short: str
    long: str


def rows() -> list[Row]:
    table = PAGE.read_text().partition("| tests | what they show")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return [
        Row([ROOT / path for path in re.findall("`(.+?)`", tests)], short, long) for tests, _, short, _, long in cells
    ]


def files_of(row: Row) -> list[Path]:
    """The files that a row names, without those that it gives as a pattern: these are the ones of no other row."""
    named = [path for path in row.paths if "*" not in path.name]
    return [file for path in named for file in ([path] if path.suffix else sorted(path.rglob("test_*.py")))]


def test_each_test_file_is_in_one_row() -> None:
    named = [file for row in rows() for file in files_of(row)]
    others = {file for row in rows() for path in row.paths if "*" in path.name for file in path.parent.glob(path.name)}
    listed = sorted([*named, *(others - set(named))])
    there = sorted(file for folder in ("tests", "integration") for file in (ROOT / folder).rglob("test_*.py"))
    assert listed == there


def test_each_row_runs_somewhere() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (parts,) = re.findall(r"^PARTS := (.+)$", makefile, re.MULTILINE)
    for row in rows():
        assert row.long.partition(":")[0].partition(";")[0].partition(",")[0] in parts.split(), row
        lanes = {NOWHERE, "units", "programs", "compiled", "brokers", "security", "faults", "spark"}
        assert re.split("[,:;]", row.short)[0] in lanes, row
