"""What the Spark demo can tell before it starts anything."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from examples.demo.screen import Screen

main = pytest.importorskip("examples.demo_spark.__main__", reason="PySpark is not installed").main


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent", "is not a folder"),
        ("file.py", "is not a folder"),
        ("empty", "has no Python files with lines in them"),
        ("other", "has no Python files with lines in them"),
    ],
)
def test_a_folder_without_python_files_ends_it_at_once(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("examples.demo_spark.__main__.running_cluster", None)
    (tmp_path / "file.py").write_text("pass\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "__init__.py").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("a line\n")
    out = io.StringIO()
    assert main([str(tmp_path / name)], Screen(Console(file=out, width=400))) == 2
    assert out.getvalue() == f"FOLDER={tmp_path / name} {reason}.\n"
