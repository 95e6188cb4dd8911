"""The demo is read on terminals and in log files."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from examples.demo import screen as module
from examples.demo.screen import Screen


def screen(*, terminal: bool, term: str = "xterm") -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=100, highlight=False, markup=False, _environ={"TERM": term}
    )
    return Screen(console), out


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the demo sees: one number, to be changed."""
    now = [100.0]
    monkeypatch.setattr("examples.demo.screen.monotonic", lambda: now[0])
    return now


def test_a_file_gets_a_line_now_and_then_and_always_the_last(clock: list[float]) -> None:
    shown, out = screen(terminal=False)
    with shown.stage("sent", 3000) as stage:
        stage.show(500, "slow")
        stage.show(1000, "fast")
        clock[0] += module.LINE_EVERY_S
        stage.show(2000, "faster")
        stage.show(3000, "done")
        clock[0] += module.LINE_EVERY_S
        stage.show(3000, "still done")
    assert out.getvalue() == "sent 500 of 3,000  slow\nsent 2,000 of 3,000  faster\nsent 3,000 of 3,000  done\n"


def test_a_wait_tells_a_file_its_steps_now_and_then(clock: list[float]) -> None:
    shown, out = screen(terminal=False)
    with shown.waiting("Starting") as tell:
        tell("fetching jars")
        tell("one jar")
        clock[0] += module.LINE_EVERY_S
        tell("another jar")
    assert out.getvalue() == "Starting\n  fetching jars\n  another jar\n"


def test_a_wait_shows_a_terminal_its_present_step() -> None:
    shown, out = screen(terminal=True)
    with shown.waiting("Starting") as tell:
        tell("a [jar]")
        shown.console.print("done")
    assert "a [jar]" in out.getvalue()


def test_a_terminal_gets_a_bar() -> None:
    shown, out = screen(terminal=True)
    with shown.stage("sent", 3000) as stage:
        stage.show(3000, "9/s")
    assert "3,000 of 3,000  9/s" in out.getvalue()
    assert "\x1b[" in out.getvalue()


def test_a_dumb_terminal_is_written_to_as_a_file_is() -> None:
    shown, out = screen(terminal=True, term="dumb")
    with shown.waiting("Starting") as tell:
        tell("a jar")
    with shown.stage("sent", 3000) as stage:
        stage.show(3000, "done")
    assert out.getvalue() == "Starting\n  a jar\nsent 3,000 of 3,000  done\n"


def test_brackets_are_no_markup() -> None:
    shown, out = screen(terminal=False)
    shown.say("[bold]x[/]")
    assert out.getvalue() == "[bold]x[/]\n"


def test_a_table_has_all_rows() -> None:
    shown, out = screen(terminal=False)
    shown.table("totals", [("records", "12"), ("keys", "3")])
    assert all(text in out.getvalue() for text in ("totals", "records", "12", "keys", "3"))
