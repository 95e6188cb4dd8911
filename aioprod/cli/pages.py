"""The page about all commands, made from their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

from aioprod.cli.commands import COMMANDS
from aioprod.console.frame import Parser

__all__ = ["page", "parsers"]

_HEAD = """# The program `aioprod`

<!-- Made by `make generate`. Edit the parsers in aioprod/cli/. -->

It comes with aioprod ([installing](start.md#1-install)); the extra `cli` adds drawn tables, live views and pictures.
`aioprod --help` lists the commands, and `aioprod COMMAND --help` says what each takes.

**Where the cluster is**: `-b host:9092,...`, `-F client.properties` (a Java client's file; settings of other clients in
it are left out), and `-X name=value` for single settings, which win. A secret on the command line can be seen by others
on the machine, so a warning says so: name a place instead, `-X sasl.password=env:KAFKA_PASSWORD` or
`file:/run/secrets/kafka`.

**Speed**: `produce`, `read` and `perf` run on uvloop where it is installed (`pip install 'aioprod[cli,uvloop]'`).

**Output**: results go to stdout, words for people to stderr. With `--json` stdout has JSON and nothing else. Progress
is shown on a terminal only. A pipe that closes (`| head`) ends a command quietly.

**Exit status**:

| status | meaning |
|---|---|
| 0 | done |
| 1 | failed: a sentence on stderr says what, and what to do |
| 2 | wrong arguments, settings or files: nothing was sent |
| 130 | interrupted by Ctrl-C or SIGTERM, in order: what was accepted has its outcome, and the report says so \
(`outbox relay`, which has no other end, has 0 then) |

**Completion**: `eval "$(aioprod completion bash)"`, also for zsh and fish.
"""


def parsers() -> dict[str, Parser]:
    """The parser of each command."""
    return {name: import_module(command.module).make_parser() for name, command in COMMANDS.items()}


def page() -> str:
    """All commands in Markdown."""
    return "\n".join([_HEAD, *_contents(), "", *_sections()])


def _contents() -> Iterator[str]:
    for name, command in COMMANDS.items():
        yield f"- [`aioprod {name}`](#aioprod-{name}): {command.does}"


def _sections() -> Iterator[str]:
    for name, parser in parsers().items():
        yield f"## aioprod {name}\n"
        yield from _section(parser)


def _section(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"{parser.description}\n"
    if isinstance(parser, Parser) and parser.examples:
        examples = "\n".join(f"# {does}\n{command}" for command, does in parser.examples)
        yield f"```sh\n{examples}\n```\n"
    rows = [_row(action) for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]
    yield "| argument | meaning |\n|---|---|"
    yield "\n".join(rows) + "\n"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield f"### {each.prog}\n"
                yield from _section(each)


def _row(action: argparse.Action) -> str:
    values = "" if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}"
    metavar = action.metavar if isinstance(action.metavar, str) else values
    takes = f" {metavar or action.dest.upper()}" if action.nargs != 0 else ""
    named = ", ".join(f"`{option}{takes}`" for option in action.option_strings)
    if not action.option_strings:
        many = {"*": " ...", "+": " ...", "?": ""}.get(str(action.nargs or ""), "")
        named = f"`{metavar or action.dest}{many}`"
    meaning = (action.help or "").replace("%(default)s", str(action.default))
    meaning = meaning.replace("%%", "%").replace("|", "\\|")
    return f"| {named} | {meaning} |"
