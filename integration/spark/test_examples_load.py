"""The example of a backfill, run as its docstring says; and the short form of a load that is killed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from aioprod.testing import KafkaCluster
from integration.support.brokers import VERSIONS
from tests.support.snippets import ROOT

NAME = "spark_load_audit.py"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_example(kafka: KafkaCluster, tmp_path: Path) -> None:
    assert f"python examples/{NAME} localhost:9092 backfill/" in (ROOT / "examples" / NAME).read_text()
    ended = run(f"examples/{NAME}", kafka.bootstrap_servers, str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"Run orders-2024: 50,000 rows \(\S+ MB\) written to topic 'orders-history'", ended.stdout)
    assert "50,000 rows promised, 50,000 found" in ended.stdout
    assert "Clean: all that was promised is there" in ended.stdout
    again = run(f"examples/{NAME}", kafka.bootstrap_servers, str(tmp_path))
    assert again.returncode == 0, again.stderr
    assert "Run orders-2024: 0 rows" in again.stdout


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_a_load_that_is_killed_twice(version: str) -> None:
    words = ["--rows", "30000", "--kills", "2", "--chunks", "5", "--spread-s", "4", "--seed", "6", "--kafka", version]
    ended = run("-m", "integration.spark.programs.load_killed", *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("killed (") == 2
    assert "30,000 rows promised, 30,000 found" in ended.stdout
    assert "Clean: " in ended.stdout
