"""The test files of docs/testing.md pass in unittest and in anyio's pytest plugin, as users run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.snippets import ROOT, snippets


def block(word: str) -> str:
    (found,) = [one.text for one in snippets(ROOT / "docs" / "testing.md") if word in one.text]
    return found


def run(folder: Path, *command: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "error", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_unittest(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(block("IsolatedAsyncioTestCase"))
    assert "Ran 1 test" in run(tmp_path, "-m", "unittest", "test_orders")


def test_anyio(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(block("anyio_backend"))
    assert "1 passed" in run(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "test_orders.py")
