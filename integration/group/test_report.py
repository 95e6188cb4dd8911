"""The tables of the groups' runs, and the page with the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.group import report

FOUND: dict[str, Any] = {
    "strategy": "brokers assign",
    "kafka": "4.3.0",
    "seed": 1,
    "minutes": 2.0,
    "events": {"join": 27, "leave": 16, "crash": 7},
    "sent": 12345,
    "again": 3,
    "led": {},
    "flaws": {"lost": 2},
    "examples": {"lost": ["orders-0 from 1 to 2 was not handled"]},
    "took_s": {"join": [0.1, 0.2, 0.9]},
    "environment": {"date": "2026-11-22", "commit": "abc", "load": 1.0, "machine": "2 x this"},
}


def test_tables() -> None:
    lines = report.tables([FOUND])
    assert lines[2] == "| brokers assign | 4.3.0 | 27, 16, 7 | - | 12,345 | 3 | 2 |"
    assert lines[-1] == "| brokers assign | 4.3.0 | - | 0.20, 0.90 (3) | - | - | - |"
    assert report.evidence(FOUND) == ["  lost: orders-0 from 1 to 2 was not handled"]


def test_the_page_is_made_of_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "results.md"
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    report.keep(FOUND)
    assert json.loads((tmp_path / "results" / "brokers-assign-4.3.0.json").read_text()) == FOUND
    report.write()
    once = page.read_text()
    report.write()
    assert page.read_text() == once
    assert once.startswith("# Mixed groups on real brokers\n")
    assert "12,345" in once


def test_the_page_that_is_there_is_of_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = report.PAGE.read_text()
    monkeypatch.setattr(report, "PAGE", tmp_path / "results.md")
    report.write()
    assert report.PAGE.read_text() == there
