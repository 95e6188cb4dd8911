"""The frame of a program with commands: each is a module of its own, and only the chosen one is imported."""

from __future__ import annotations

import errno
import io
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from aioprod._build import COMPILED
from aioprod.console.escapes import escaped
from aioprod.errors import AioprodError, ConfigError, InvalidTopicError, UsageError

__all__ = ["Command", "Parser", "run"]


class Command(NamedTuple):
    """A module with `main(arguments) -> exit status`, and what it does, in a line."""

    module: str
    does: str


class Parser(ArgumentParser):
    """The parser of a command's arguments; it reports an error in one sentence and exits with 2.

    `examples` are command lines, each with what it does, which its help shows last.
    """

    def __init__(self, *, examples: Sequence[tuple[str, str]] = (), **options: Any) -> None:
        super().__init__(**options)
        self.examples = examples

    def format_help(self) -> str:
        """The help of `argparse`, and the examples, whose lines are not folded."""
        lines = [f"  # {does}\n  {command}\n" for command, does in self.examples]
        return super().format_help() + ("\nexamples:\n" + "\n".join(lines) if lines else "")

    def error(self, message: str) -> NoReturn:
        """Report the error, and exit."""
        self.exit(2, f"{self.prog}: {message.removesuffix('.')} (see {self.prog} --help).\n")

    @contextmanager
    def usage_errors(self) -> Iterator[None]:
        """Report the errors of invalid arguments that are raised within, with their hints, and exit with 2."""
        try:
            yield
        except (ConfigError, InvalidTopicError, UsageError) as error:
            lines = filter(None, [f"{self.prog}: {error.message}", error.hint])
            self.exit(2, "".join(f"{escaped(line)}\n" for line in lines))


def run(program: str, about: str, commands: Mapping[str, Command], arguments: Sequence[str], *, version: str) -> int:
    """Run the command that the first argument names; returns its status, 1 if it failed, 2 if there is no such command.

    `--help` lists the commands, `--version` shows the version, and whether it is compiled.
    An AioprodError is one or two lines on stderr. A command whose output is no longer read ends in silence, one whose
    output can't be written says why.
    """
    if sys.stdout is None:  # It was closed before the start, as by `>&-`.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or file that can't hold a sign, say of a key, gets it escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    usage = f"usage: {program} {{{','.join(commands)}}} ..."
    name = program.removeprefix("python -m ")
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(_help(usage, about, commands))
        return 0 if arguments else 2
    chosen = arguments[0]
    if chosen == "--version":
        sys.stdout.write(f"{name} {version} ({'compiled' if COMPILED else 'interpreted'})\n")
        return 0
    if chosen not in commands:
        _say(f"{name}: there is no command {chosen!r}; {usage}")
        return 2
    main: Callable[[Sequence[str]], int] = import_module(commands[chosen].module).main
    try:
        status = main(arguments[1:])
        sys.stdout.flush()
    except AioprodError as error:
        _say(f"{name} {chosen}: {error.message}", *filter(None, [error.hint]))
        return 1
    except KeyboardInterrupt:
        _say(f"{name} {chosen}: interrupted")
        return 130
    except BrokenPipeError:
        _forget_output()
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _forget_output()
        _say(f"{name} {chosen}: its output can't be written: {error.strerror}.")
        return 1
    return status


def _forget_output() -> None:
    """What is still buffered would be written, in vain and with a traceback, when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(*lines: str) -> None:
    sys.stderr.write("".join(f"{escaped(line)}\n" for line in lines))


def _help(usage: str, about: str, commands: Mapping[str, Command]) -> str:
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:<{width}}  {command.does}" for name, command in commands.items())
    return f"{usage}\n\n{about}\n\n{listed}\n\nEach has its own --help; --version shows the version of aioprod.\n"
