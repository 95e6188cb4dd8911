"""The frame of programs with commands."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest

from aioprod.console.files import write
from aioprod.console.frame import Command, Parser, run
from aioprod.errors import ConfigError, UsageError

COMMANDS = {"brew": Command("a_module_of_a_test", "make coffee"), "clean": Command("no_module_at_all", "clean up")}


@pytest.fixture
def brew(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Sequence[str]], int]], None]:
    """Sets what the command does."""

    def does(main: Callable[[Sequence[str]], int]) -> None:
        module = ModuleType("a_module_of_a_test")
        module.__dict__["main"] = main
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return does


def started(*arguments: str) -> int:
    return run("python -m cafe", "A cafe.", COMMANDS, arguments, version="1.2")


def test_help_names_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert started("--help") == 0
    assert capsys.readouterr().out == (
        "usage: python -m cafe {brew,clean} ...\n\nA cafe.\n\n  brew   make coffee\n  clean  clean up\n\n"
        "Each has its own --help; --version shows the version of aioprod.\n"
    )
    assert started() == 2
    assert capsys.readouterr().err.startswith("usage: python -m cafe")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert started("--version") == 0
    assert capsys.readouterr().out in ("cafe 1.2 (compiled)\n", "cafe 1.2 (interpreted)\n")


def test_an_unknown_command_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert started("bru") == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "cafe: there is no command 'bru'; usage: python -m cafe {brew,clean} ...\n")


def test_a_command_gets_the_other_arguments_and_gives_the_status(
    brew: Callable[[Callable[[Sequence[str]], int]], None],
) -> None:
    brew(len)
    assert started("brew", "a", "b", "--help") == 3


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ConfigError("No beans."), 1, "cafe brew: No beans.\n"),
        (ConfigError("No beans.", hint="Buy some."), 1, "cafe brew: No beans.\nBuy some.\n"),
        (ConfigError("No\x1b[2J.", hint="\nFAKE $ "), 1, "cafe brew: No\\x1b[2J.\n\\nFAKE $ \n"),
        (KeyboardInterrupt(), 130, "cafe brew: interrupted\n"),
    ],
)
def test_errors_are_told_without_a_traceback(
    error: BaseException,
    status: int,
    said: str,
    brew: Callable[[Callable[[Sequence[str]], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(arguments: Sequence[str]) -> int:
        raise error

    brew(fails)
    assert started("brew") == status
    assert capsys.readouterr().err == said


def test_bugs_are_not_hidden(brew: Callable[[Callable[[Sequence[str]], int]], None]) -> None:
    def fails(arguments: Sequence[str]) -> int:
        raise ZeroDivisionError

    brew(fails)
    with pytest.raises(ZeroDivisionError):
        started("brew")


def test_the_reader_of_a_pipe_may_leave() -> None:
    writing = subprocess.Popen(
        [sys.executable, "-m", "aioprod.cli", "partition", "-", "--partitions", "12"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writing.stdin is not None
    assert writing.stdout is not None
    writing.stdout.close()
    _, said = writing.communicate(b"key\n" * 100_000)
    assert (writing.returncode, said) == (1, b"")


@pytest.mark.parametrize(
    ("output", "status", "said"),
    [
        (">&-", 0, ""),
        (">/dev/full", 1, "aioprod partition: its output can't be written: No space left on device.\n"),
    ],
)
def test_an_output_that_can_not_be_written(output: str, status: int, said: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m aioprod.cli partition key --partitions 12 {output}"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (status, said)


class TestParser:
    def parser(self) -> Parser:
        parser = Parser(prog="cafe brew")
        parser.add_argument("--cups", type=int, required=True)
        return parser

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ([], "the following arguments are required: --cups"),
            (["--cups", "x"], "argument --cups: invalid int value: 'x'"),
            (["--cups", "1", "x"], "unrecognized arguments: x"),
        ],
    )
    def test_a_wrong_argument_is_one_sentence(
        self, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            self.parser().parse_args(arguments)
        assert ended.value.code == 2
        assert capsys.readouterr().err == f"cafe brew: {said} (see cafe brew --help).\n"


def test_files_are_written_as_told(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/told"
    write(path, "é\n", "The menu")
    with open(path, "rb") as file:
        assert file.read() == b"\xc3\xa9\n"
    write(path, b"\x00", "The menu")
    with open(path, "rb") as file:
        assert file.read() == b"\x00"
    write("-", "to stdout", "The menu")
    assert capsys.readouterr().out == "to stdout"
    with pytest.raises(UsageError) as caught:
        write(f"{tmp_path}/missing/told", "", "The menu")
    assert caught.value.message == f"The menu can't be written to '{tmp_path}/missing/told': No such file or directory."
