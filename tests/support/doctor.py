"""Runs `aioprod doctor`, and keeps what it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aioprod.cli.__main__ import main

__all__ = ["Visit"]


class Visit:
    """Runs the doctor, and keeps its findings."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self._folder = folder
        self.findings: list[dict[str, str]] = []

    def __call__(self, server: str, *arguments: str, status: int = 0, **options: Any) -> None:
        """See the doctor; `options` are those of a client, and go by a file."""
        file = self._folder / "client.properties"
        lines = [f"{name.replace('_', '.')}={_property_text(value)}" for name, value in options.items()]
        file.write_text("\n".join(lines))
        ended = main(["doctor", server, "-F", str(file), "--json", "--timeout", "30", *arguments])
        said = self._capsys.readouterr()
        document = json.loads(said.out)
        self.findings = document["findings"]
        assert ended == status, self.findings
        assert (document["verdict"] == "failed") == (status == 1)
        assert "-secret" not in said.out + said.err

    def of(self, check: str) -> tuple[str, str, str]:
        """Status, sentence and advice of the worst finding of a check."""
        ranks = ["failed", "warning", "ok", "skipped"]
        found = [one for one in self.findings if one["check"] == check]
        worst = min(found, key=lambda one: ranks.index(one["status"]))
        return worst["status"], worst["found"], worst["advice"] or ""

    @property
    def failed(self) -> list[str]:
        return [one["check"] for one in self.findings if one["status"] == "failed"]


def _property_text(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace("\n", "\\n")
