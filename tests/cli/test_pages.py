"""Each command says what it does, and shells complete what its parser has."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess

import pytest

from aioprod.cli.__main__ import main
from aioprod.cli.commands import COMMANDS
from aioprod.cli.pages import parsers

BASH = shutil.which("bash") or "bash"


def each_parser() -> list[argparse.ArgumentParser]:
    found: list[argparse.ArgumentParser] = list(parsers().values())
    for parser in found:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                found.extend(action.choices.values())
    return found


def test_every_command_and_argument_has_its_help() -> None:
    for parser in each_parser():
        assert parser.description, parser.prog
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, f"{parser.prog} {action.dest}"
    assert [name for name, parser in parsers().items() if not parser.examples] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("completion", "assign")])
def test_examples_are_accepted_by_the_parser(name: str) -> None:
    parser = parsers()[name]
    for line, _ in parser.examples:
        words = shlex.split(line.rpartition("| ")[2].partition(" > ")[0])
        assert words[:2] == ["aioprod", name]
        parse = parser.parse_intermixed_args if name == "produce" else parser.parse_args
        assert parse(words[2:]) is not None


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    program = 'source <(echo "$SCRIPT"); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _aioprod; echo "${COMPREPLY[@]}"'
    script = subprocess.run(
        [BASH, "-c", program, "bash", *words],
        env={"SCRIPT": SCRIPTS["bash"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert script.stderr == ""
    return script.stdout.split()


SCRIPTS: dict[str, str] = {}


@pytest.fixture(autouse=True)
def scripts(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        SCRIPTS[shell] = capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["aioprod", "pro"], ["produce"]),
        (["aioprod", "topics", "cr"], ["create"]),
        (["aioprod", "topics", "create", "t", "--part"], ["--partitions"]),
        (["aioprod", "produce", "t", "--format", "j"], ["jsonl"]),
        (["aioprod", "read", "t", "--isolation", "read_c"], ["read_committed"]),
    ],
)
def test_bash_completes(words: list[str], expected: list[str]) -> None:
    assert completed(*words) == expected


def test_each_shell_knows_each_command() -> None:
    for script in SCRIPTS.values():
        assert all(name in script for name in COMMANDS)
