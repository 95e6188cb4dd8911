"""What is said of a run: also of one that was interrupted, or whose process ended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from aioprod.console.tables import text_of
from integration.soak import report
from integration.soak.run import Options, Run
from integration.soak.test_verdict import FIRST, hour
from integration.soak.verdict import Fault


def ended(**changes: Any) -> dict[str, Any]:
    sample = replace(hour()[-1], at_s=0.0, failed=changes.pop("failed", 0)).to_dict()
    said: dict[str, Any] = {"flaws": {}, "examples": {}, "errors": {}, "metrics": {}, "sample": sample, "read_again": 0}
    return said | changes


def fine(found: Run) -> bool:
    return all(check.is_fine for check in report.verdict(found))


def test_a_run_is_written_and_told(tmp_path: Path) -> None:
    found = Run(Options(), {}, hour(), [Fault("leader killed", 600.0, 620.0)], ended())
    report.write(found, tmp_path)
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["is_fine"] is True
    assert len(written["samples"]) == 720
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
    said = text_of(report.parts(found))
    assert "1 x leader killed" in said
    assert "at 5.0 min  at 59.9 min" in said


def test_flaws_and_their_examples_are_told() -> None:
    found = Run(Options(), {}, hour(), [], ended(flaws={"lost": 1}, examples={"lost": ["main-0 #7 was delivered"]}))
    assert not fine(found)
    assert "main-0 #7 was delivered" in text_of(report.parts(found))


def test_what_fails_after_the_last_sample_counts() -> None:
    assert fine(Run(Options(), {}, hour(), [], ended()))
    assert not fine(Run(Options(), {}, hour(), [], ended(failed=1)))


def test_a_process_that_is_gone_is_no_yes(tmp_path: Path) -> None:
    found = Run(Options(), {}, hour(), [], None, error="RuntimeError: The sending process has ended.")
    report.write(found, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["is_fine"] is False
    assert "The sending process has ended." in text_of(report.parts(found))
    assert not fine(Run(Options(), {}, [], [], None))


def test_a_run_that_was_interrupted_early_has_the_warm_up_of_a_short_one() -> None:
    samples = [replace(FIRST, at_s=float(at)) for at in range(60)]
    assert fine(Run(Options(minutes=60), {}, samples, [], ended(), interrupted=True))
