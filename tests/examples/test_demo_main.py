"""The demo's exit status is its verdict."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from aioprod.errors import RejectedError
from examples.demo import __main__ as demo
from examples.demo.compare import Digests
from examples.demo.screen import Screen
from examples.demo.sending import Sent
from examples.demo.source import Source


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def screen(out: io.StringIO) -> Screen:
    return Screen(Console(file=out, width=200, highlight=False, markup=False))


def digests(*values: bytes) -> Digests:
    result = Digests()
    for value in values:
        result[b"key"].add(value)
    return result


def test_equal_records_are_a_success(screen: Screen, out: io.StringIO) -> None:
    sent = Sent(digests=digests(b"1", b"2"), acknowledged=2)
    assert demo.report(sent, digests(b"1", b"2"), 1.0, 2.0, screen) == 0
    assert "Where to look next" in out.getvalue()


def test_one_record_that_differs_is_a_failure(screen: Screen, out: io.StringIO) -> None:
    sent = Sent(digests=digests(b"1", b"2"), acknowledged=2)
    assert demo.report(sent, digests(b"2", b"1"), 1.0, 2.0, screen) == 1
    assert "DIFFERS key: its 2 records came back in another order." in out.getvalue()
    assert "Where to look next" not in out.getvalue()


def test_a_failed_record_is_a_failure_even_if_it_came_back(screen: Screen, out: io.StringIO) -> None:
    sent = Sent(digests=digests(b"1"), errors=[RejectedError("refused", topic="demo", partition=0)])
    assert demo.report(sent, digests(b"1"), 1.0, 2.0, screen) == 1
    assert "NOT DELIVERED refused" in out.getvalue()


def test_a_file_that_is_not_there_ends_it_at_once(screen: Screen, out: io.StringIO, tmp_path: Path) -> None:
    assert demo.main([str(tmp_path / "absent")], screen) == 2
    assert "can't be read: No such file or directory." in out.getvalue()


@pytest.mark.parametrize(
    ("error", "said"),
    [(RejectedError("refused", topic="demo", partition=0), "refused"), (TimeoutError("silence"), "silence")],
)
def test_what_ends_it_is_told(
    screen: Screen, out: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    async def failing(sources: list[Source], what: str, screen: Screen) -> int:
        raise error

    monkeypatch.setattr(demo, "demo", failing)
    path = tmp_path / "file"
    path.write_bytes(b"line\n")
    assert demo.main([str(path)], screen) == 2
    assert out.getvalue() == f"The demo could not finish: {said}\n"


def test_what_it_points_to_is_there() -> None:
    root = Path(demo.__file__).parents[2]
    named = [line.split()[0] for line in demo.NEXT.splitlines()[1:] if not line.strip().startswith("make")]
    assert named
    assert all((root / name).exists() for name in named)
