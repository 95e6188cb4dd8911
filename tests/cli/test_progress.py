"""The line of progress on a terminal."""

from __future__ import annotations

import io

import pytest

from aioprod.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_at_most_twice_a_second() -> None:
    now = [0.0]
    terminal = Terminal()
    progress = Progress(terminal, lambda: now[0])
    for step in range(12):
        now[0] = step / 10
        progress.show(lambda: f"{step} done")  # noqa: B023 - called at once
    assert terminal.getvalue() == "\r\x1b[2K5 done\r\x1b[2K10 done"
    progress.clear()
    progress.clear()
    assert terminal.getvalue().endswith("10 done\r\x1b[2K")


def test_a_dumb_terminal_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    now = [0.0]
    progress = Progress(terminal, lambda: now[0])
    now[0] = 9.0
    progress.show(lambda: "never")
    assert terminal.getvalue() == ""


def test_a_pipe_gets_nothing() -> None:
    pipe = io.StringIO()
    now = [0.0]
    progress = Progress(pipe, lambda: now[0])
    now[0] = 9.0
    progress.show(lambda: "never")
    progress.clear()
    assert pipe.getvalue() == ""
