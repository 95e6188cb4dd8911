"""What the demo sends is what stands in the files, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.demo.source import Source, count_lines, one_file, standard_library


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for name in ("b.py", "a/x.py", "a/notes.txt", "__pycache__/b.py", "site-packages/six.py", "a/__pycache__/x.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"one\ntwo\n")
    return tmp_path


def test_modules_are_keyed_by_their_path_and_packages_are_left_out(library: Path) -> None:
    assert [source.key for source in standard_library(library)] == [b"a/x.py", b"b.py"]


def test_lines_are_counted(library: Path) -> None:
    assert count_lines(standard_library(library)) == 4


def test_this_machine_has_a_standard_library() -> None:
    sources = standard_library()
    assert b"asyncio/events.py" in [source.key for source in sources]


@given(st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=6))
def test_lines_lose_their_line_feed_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("source") / "file"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert list(Source(b"", path).lines()) == lines


def test_a_last_line_without_line_feed_counts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff\r\n\nend")
    assert list(Source(b"", path).lines()) == [b"\xff\r", b"", b"end"]


def test_one_file_is_keyed_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    path.write_bytes(b"1\n")
    assert one_file(path) == [Source(b"orders.log", path)]


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_file_that_cannot_be_read_is_refused_before_anything_starts(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"No such file|directory"):
        one_file(tmp_path / name)
