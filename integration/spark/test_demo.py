"""`make demo-spark`, with fewer files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_demo_delivers_everything_once(tmp_path: Path) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    for package in ("asyncio", "email"):
        shutil.copytree(library / package, tmp_path / package)
    ended = subprocess.run(
        [sys.executable, "-m", "examples.demo_spark", tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    assert re.search(r"while executor \d+ was killed", ended.stdout)
    reports = re.search(r"Reports: (\S+) and (\S+)", ended.stdout)
    assert reports is not None, ended.stdout
    for path in map(Path, reports.groups()):
        assert path.read_text().startswith("<!doctype html>")
    shutil.rmtree(Path(reports[1]).parent)
