"""The frame of a program with commands: each is a module of its own, and only the one that is asked for is imported."""

from __future__ import annotations

import io
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple, NoReturn

from aioprod._build import COMPILED
from aioprod.errors import AioprodError, ConfigError, InvalidTopicError, UsageError

__all__ = ["Command", "Parser", "run"]


class Command(NamedTuple):
    """A module with `main(arguments) -> exit status`, and what it does, in a line."""

    module: str
    does: str


class Parser(ArgumentParser):
    """The parser of a command's arguments; it says what is wrong with them in one sentence, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit."""
        self.exit(2, f"{self.prog}: {message.removesuffix('.')} ({self.prog} --help tells more).\n")

    @contextmanager
    def usage_errors(self) -> Iterator[None]:
        """What is refused within is the fault of the arguments: it is told, with its hint, and the exit is with 2."""
        try:
            yield
        except (ConfigError, InvalidTopicError, UsageError) as error:
            self.exit(2, "".join(f"{line}\n" for line in (f"{self.prog}: {error.message}", error.hint) if line))


def run(program: str, about: str, commands: Mapping[str, Command], arguments: Sequence[str], *, version: str) -> int:
    """Run the command that the first argument names; returns its status, 1 if it failed, 2 if there is none.

    `--help` lists the commands, `--version` tells the version, and whether it is compiled.
    An AioprodError is one or two lines on stderr. Who stops reading what a command writes ends it without a word.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or file that can't hold a sign, say of a key, gets it escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    usage = f"usage: {program} {{{','.join(commands)}}} ..."
    name = program.removeprefix("python -m ")
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(_help(usage, about, commands))
        return 0 if arguments else 2
    asked = arguments[0]
    if asked == "--version":
        sys.stdout.write(f"{name} {version} ({'compiled' if COMPILED else 'interpreted'})\n")
        return 0
    if asked not in commands:
        _say(f"{name}: there is no command {asked!r}; {usage}")
        return 2
    main: Callable[[Sequence[str]], int] = import_module(commands[asked].module).main
    try:
        status = main(arguments[1:])
        sys.stdout.flush()
    except AioprodError as error:
        _say(f"{name} {asked}: {error.message}", *filter(None, [error.hint]))
        return 1
    except KeyboardInterrupt:
        _say(f"{name} {asked}: interrupted")
        return 130
    except BrokenPipeError:
        # What is still buffered would be written, in vain and with a traceback, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _say(*lines: str) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def _help(usage: str, about: str, commands: Mapping[str, Command]) -> str:
    width = max(map(len, commands))
    told = "\n".join(f"  {name:<{width}}  {command.does}" for name, command in commands.items())
    return f"{usage}\n\n{about}\n\n{told}\n\nEach has its own --help; --version tells which aioprod this is.\n"
