"""Lines of a text. How they are encoded is in test_bulk_values.py."""

from __future__ import annotations

import pytest

from aioprod.producer.batching.lines import lines_of

TEXTS = [
    b"",
    b"a",
    b"\n",
    b"\n\n",
    b"a\nb",
    b"a\r\n\r\nb\n",
    b"\nfirst is empty",
    b"last is empty\n",
    b"\xff\x00\n\x00\n",
    b"\n" * 1000,
    b"x" * 5000 + b"\n" + b"y" * 130 + b"\n" * 700,
]


@pytest.mark.parametrize("text", TEXTS)
def test_lines_are_what_a_split_gives(text: bytes) -> None:
    lines = lines_of(text)
    expected = text.split(b"\n")
    assert list(lines) == expected
    assert len(lines) == len(expected)
    assert lines.size == sum(map(len, expected))
    assert [lines[index] for index in range(-len(lines), len(lines))] == expected * 2


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (1, 3), (3, 99), (2, 2), (99, 100), (None, -1), (-2, None)])
def test_a_slice_is_lines_of_the_same_text(start: int | None, stop: int | None) -> None:
    lines = lines_of(b"\n".join([b"zero", b"", b"two", b"3", b"four"]))
    some = lines[start:stop]
    expected = list(lines)[start:stop]
    assert list(some) == expected
    assert some.size == sum(map(len, expected))
    assert some.data is lines.data
    assert list(some[1:]) == expected[1:]


def test_there_is_no_line_beyond_the_last() -> None:
    lines = lines_of(b"a\nb\nc")[:2]
    for index in (2, -3):
        with pytest.raises(IndexError):
            lines[index]
