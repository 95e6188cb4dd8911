"""What the README and the guides say that `aioprod` prints is what it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from aioprod.cli.__main__ import main
from tests.support.snippets import PAGES

TEXT = "\n".join(page.read_text() for page in PAGES)
BLOCKS = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_command_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [part.partition("\n") for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(asked) >= 3
    for command, _, told in asked:
        program, *arguments = shlex.split(command)
        assert program == "aioprod"
        assert main(arguments) == 0
        assert capsys.readouterr().out.strip() == told.strip(), command
