"""The table of versions and checks, the page with the table, and the exit status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.brokers import __main__ as program
from integration.brokers import report
from integration.brokers.broker import KFAKE
from integration.brokers.checks import CHECKS
from integration.brokers.registry import Check, Found
from integration.brokers.report import Results

PLACE = {"date": "2026-11-22", "commit": "abc", "machine": "2 x this"}
FIRST, SECOND = (check.name for check in CHECKS[:2])
OLD = Results("2.10.1", {FIRST: Found("ok", True), SECOND: Found("refused", True, "too old")}, environment=PLACE)
NEW = Results("4.4.0", {FIRST: Found("failed", False, "a record is missing")}, environment=PLACE)
ABSENT = Results(KFAKE, not_run="no Go", environment=PLACE)
BROKEN = Results("2.9.0", not_started="KafkaStartError: it has ended", environment=PLACE)


def test_the_table_and_the_evidence() -> None:
    assert report.table([OLD, NEW, ABSENT, BROKEN]) == [
        "|  | 2.10.1 | 4.4.0 | kfake | 2.9.0 |",
        "| --- | --- | --- | --- | --- |",
        f"| {FIRST} | ok | **failed** | not run | **not started** |",
        f"| {SECOND} | refused | - | not run | **not started** |",
    ]
    assert report.evidence([OLD, NEW, ABSENT, BROKEN]) == [
        f"4.4.0, {FIRST}: failed: a record is missing",
        "kfake: not run: no Go",
        "2.9.0: KafkaStartError: it has ended",
    ]
    assert report.table([ABSENT])[-1] == "| all | not run |"


def test_the_page_is_made_of_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "brokers.md"
    page.write_text(f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nEnd.\n")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    for results in (NEW, OLD):
        report.keep(results)
    assert report.kept() == [OLD, NEW]
    report.write()
    lines = page.read_text().splitlines()
    assert lines[:4] == ["# Title", "", report.BEGIN, "|  | 2.10.1 | 4.4.0 |"]
    assert lines[-4:] == ["- 2.10.1, 4.4.0: 2026-11-22 at commit abc, 2 x this.", report.END, "", "End."]


def test_the_page_shows_what_is_kept() -> None:
    text = report.PAGE.read_text()
    assert report.page(text, report.kept()) == text


@pytest.mark.parametrize(("results", "status"), [(OLD, 0), (NEW, 1), (ABSENT, 0), (BROKEN, 1)])
def test_the_exit_status(
    results: Results, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(name: str, checks: Sequence[Check]) -> Results:
        return results

    monkeypatch.setattr(program, "_results_of", run)
    assert program.main(["--versions", results.name]) == status
    assert capsys.readouterr().out.startswith(f"|  | {results.name} |")


@pytest.mark.parametrize("arguments", [["--versions", "2.x"], ["--write", "--checks", "topics"]])
def test_arguments_that_make_no_sense(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(arguments)
