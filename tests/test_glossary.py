"""The search for words of our own finds them in names, comments and texts, and leaves the field's words alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.glossary import findings, main


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("# Who waits hears of it.", ["Who", "hears"]),
        ("def ask_leader() -> None: ...", ["ask"]),
        ("class AskLeader: ...", ["Ask"]),
        ('"""The batch goes on."""', ["goes on"]),
        ("# given_up is a name", ["given up"]),
        ("raise OSError('Connection refused')", []),
        ("# Revoke the partition and complete its waiters.", []),
        ("task, basket, wholesale, laneway", []),
    ],
)
def test_words_are_found_in_names_and_prose(tmp_path: Path, line: str, words: list[str]) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"{line}\n")
    assert [found.word for found in findings([tmp_path])] == words


def test_each_place_is_printed_with_what_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "module.pxd"
    file.write_text("cdef int a\n# anew\n")
    assert main([str(file)]) == 1
    assert f"{file}:2: 'anew': again" in capsys.readouterr().out
    file.write_text("cdef int a\n")
    assert main([str(file)]) == 0
