"""The examples that are programs, by their commands: each starts its own brokers, and checks what is in them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from integration.support.missing import missing_for_java
from tests.support.length import by_length
from tests.support.snippets import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.mark.needs(missing=missing_for_java)
@pytest.mark.parametrize(
    ("target", "arguments", "printed"),
    [
        (
            "example-orders",
            by_length("--orders 300 --kills 2 --database postgres", "--orders 1000 --kills 4 --database postgres"),
            r"the database is Postgres\.\n(.*\n)+Every order is in Kafka once",
        ),
        (
            "example-orders",
            by_length("--orders 100 --kills 1 --database sqlite", "--orders 300 --kills 2 --database sqlite"),
            r"the database is SQLite\.\n(.*\n)+Every order is in Kafka once",
        ),
        ("example-copy-table", "--rows 20000", r"rows sent +│ +20,000 in .*\n(.*\n)+Every row came back once"),
        (
            "example-word-count",
            by_length("--lines 2000 --kills 2", "--lines 6000 --kills 4"),
            r"words +│ +[1-9][0-9,]+(.*\n)+Every word was counted as often",
        ),
    ],
    ids=["orders on Postgres", "orders on SQLite", "copy_table", "word_count"],
)
def test_each_program_ends_well(target: str, arguments: str, printed: str) -> None:
    (module,) = re.findall(rf"^{target}:.*\n.*\n\t@\$\(BIN\)/python -m (\S+) \$\(ARGS\)$", MAKEFILE, re.MULTILINE)
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", module, *arguments.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(printed, ended.stdout), ended.stdout
