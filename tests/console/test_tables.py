"""Numbers, keys and tables as text, and tables on a terminal."""

from __future__ import annotations

import io
import json

import pytest

from aioprod.console import terminal
from aioprod.console.escapes import json_text
from aioprod.console.tables import Part, Table, key_text, percent, shortened, shown, text_of
from aioprod.console.terminal import redraws, show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def rows(count: int) -> list[tuple[object, ...]]:
    return [(f"m{index}", index) for index in range(count)]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "\N{EN DASH}"), (True, "True"), (12345, "12,345"), (1.25, "1.25"), ("x", "x")]
)
def test_shown(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "(no key)"),
        (b"", ""),
        (b"a b", "a b"),
        (b"\x00\x01", "0x0001"),
        (b"\xff", "0xff"),
        (b"x" * 60, "x" * 48 + "..."),
    ],
)
def test_key_text(key: bytes | None, text: str) -> None:
    assert key_text(key) == text


def test_percent() -> None:
    assert [percent(1, 8), percent(0, 8), percent(1, 10**6), percent(0, 0)] == ["12.5 %", "0.0 %", "0.0001 %", "0.0 %"]


def test_numbers_stand_to_the_right_and_text_to_the_left() -> None:
    table = Table("Load", "Of each.", ("member", "rows", "note"), [("a", 12345, "x"), ("bcdefgh", 7, "")])
    assert text_of(["First.", table]) == (
        "First.\n\nLoad. Of each.\n  member     rows  note\n  a        12,345  x\n  bcdefgh       7\n"
    )


def test_an_empty_table_has_its_headers() -> None:
    assert text_of([Table("Load", "", ("member", "rows"), [])]) == "Load.\n  member  rows\n"


def test_what_cannot_be_printed_is_escaped() -> None:
    evil = "ä\x07\x1b[31m"
    parts: list[Part] = [f"1: {evil}\n", Table(f"2: {evil}", f"3: {evil}\n", ("member",), [(f"4: {evil}\n",)])]
    said = text_of(parts)
    stream = Terminal()
    show(parts, stream)
    for number in range(1, 5):
        assert f"{number}: ä\\x07\\x1b[31m" in said
        assert f"{number}: ä\\x07\\x1b[31m" in stream.getvalue()
    assert "\x07" not in said + stream.getvalue()
    assert said.count("\\n") == 2


def test_json_has_no_control_characters() -> None:
    text = "\x1b\n\x7f\x9b\N{RIGHT-TO-LEFT OVERRIDE}ä"
    written = json_text([text])
    assert written == '["\\u001b\\n\\u007f\\u009b\\u202eä"]'
    assert json.loads(written) == [text]


@pytest.mark.parametrize(
    ("count", "rows_max", "first", "last", "left_out"),
    [(5, None, 5, 0, 0), (5, 5, 5, 0, 0), (5, 4, 2, 2, 1), (5, 3, 2, 1, 2), (5, 1, 1, 0, 4), (0, 3, 0, 0, 0)],
)
def test_shortened(count: int, rows_max: int | None, first: int, last: int, left_out: int) -> None:
    given = rows(count)
    assert shortened(given, rows_max) == (given[:first] + given[count - last :] * bool(last), left_out)


def test_a_shortened_table_says_where_and_how_many_rows_it_lacks() -> None:
    kept, left_out = shortened(rows(2000), 3)
    text = text_of([Table("Load", "", ("member", "rows"), kept, left_out)])
    assert text.splitlines()[2:] == [
        "  m0          0",
        "  m1          1",
        "  ... 1,997 more",
        "  m1999   1,999",
    ]
    stream = Terminal()
    show([Table("Load", "", ("member", "rows"), kept, left_out)], stream)
    order = [stream.getvalue().index(words) for words in ("m1 ", "... 1,997 more", "m1999")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("stream", "term", "can"),
    [
        (Terminal(), "xterm", True),
        (Terminal(), None, True),
        (Terminal(), "dumb", False),
        (Terminal(), "unknown", False),
        (io.StringIO(), "xterm", False),
    ],
)
def test_what_can_redraw(stream: io.StringIO, term: str | None, can: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if term is None:
        monkeypatch.delenv("TERM")
    else:
        monkeypatch.setenv("TERM", term)
    assert redraws(stream) is can


def test_rich_on_a_terminal_and_plain_text_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[Part] = ["[red]first", Table("[red]Load", "[red]says", ("[red]a",), [("[red]k",)])]
    drawn, piped, without = Terminal(), io.StringIO(), Terminal()
    show(parts, drawn)
    assert drawn.getvalue().count("[red]") == 5
    assert drawn.getvalue() != text_of(parts)
    show(parts, piped)
    assert piped.getvalue() == text_of(parts)
    monkeypatch.setattr(terminal, "find_spec", lambda name: None)
    show(parts, without)
    assert without.getvalue() == text_of(parts)
