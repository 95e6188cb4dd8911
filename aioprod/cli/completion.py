"""`aioprod completion`: the script by which a shell completes the words of a command line, made from the parsers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from aioprod.cli.pages import parsers
from aioprod.console.frame import Parser

__all__ = ["main", "make_parser"]


class Words(NamedTuple):
    """What may follow some words: actions, options, and the values of options that have a choice."""

    path: tuple[str, ...]
    actions: tuple[str, ...]
    options: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]


def main(arguments: Sequence[str]) -> int:
    """Write the script of a shell to stdout; returns 0."""
    given = make_parser().parse_args(arguments)
    sys.stdout.write(_SCRIPTS[given.shell]([*_words()]))
    return 0


def _words() -> Iterator[Words]:
    found = parsers()
    yield Words((), tuple(found), ("--help", "--version"), {})
    for name, parser in found.items():
        yield from _of(parser, (name,))


def _of(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[Words]:
    actions: dict[str, argparse.ArgumentParser] = {}
    options: list[str] = []
    choices: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions = dict(action.choices)
        elif action.option_strings:
            options += action.option_strings
            if action.choices is not None:
                choices |= {option: tuple(map(str, action.choices)) for option in action.option_strings}
    yield Words(path, tuple(actions), tuple(options), choices)
    for name, each in actions.items():
        yield from _of(each, (*path, name))


def _bash(words: Sequence[Words]) -> str:
    values = [
        _case(f"{' '.join(one.path)}|{option}", choices) for one in words for option, choices in one.choices.items()
    ]
    plain = [_case(" ".join(one.path), [*one.actions, *one.options]) for one in words]
    paths = "|".join(f"'{' '.join(one.path)}'" for one in words if one.path)
    return _BASH.replace("@PATHS@", paths).replace("@VALUES@", "\n".join(values)).replace("@WORDS@", "\n".join(plain))


def _case(pattern: str, words: Sequence[str]) -> str:
    return f"    '{pattern}') COMPREPLY=($(compgen -W '{' '.join(words)}' -- \"$word\"));;"


_BASH: Final = """# bash completion of aioprod: source it, or write it to /etc/bash_completion.d/aioprod
_aioprod() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path='' try='' each
  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    try="${path:+$path }$each"
    case "$try" in @PATHS@) path="$try";; *) ;; esac
  done
  COMPREPLY=()
  case "$path|$before" in
@VALUES@
  esac
  [[ ${#COMPREPLY[@]} -gt 0 ]] && return
  case "$path" in
@WORDS@
  esac
  [[ ${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY=($(compgen -f -- "$word"))
}
complete -o filenames -F _aioprod aioprod
"""


def _zsh(words: Sequence[Words]) -> str:
    return f"""#compdef aioprod
# zsh completion of aioprod: source it after compinit
autoload -U +X bashcompinit && bashcompinit
{_bash(words)}"""


def _fish(words: Sequence[Words]) -> str:
    lines = [
        "# fish completion of aioprod: write it to ~/.config/fish/completions/aioprod.fish",
        "complete -c aioprod -f",
    ]
    for one in words:
        condition = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in one.path)
        condition = condition or "__fish_use_subcommand"
        if one.actions:
            nots = "" if not one.path else f"; and not __fish_seen_subcommand_from {' '.join(one.actions)}"
            lines.append(f"complete -c aioprod -n '{condition}{nots}' -a '{' '.join(one.actions)}'")
        for option in one.options:
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            values = f" -x -a '{' '.join(one.choices[option])}'" if option in one.choices else ""
            lines.append(f"complete -c aioprod -n '{condition}' {kind}{values}")
    return "\n".join(lines) + "\n"


_SCRIPTS: Final[dict[str, Callable[[Sequence[Words]], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def make_parser() -> Parser:
    """The parser of `aioprod completion`."""
    parser = Parser(
        prog="aioprod completion",
        description="Write the script by which a shell completes commands, options and their values.",
        examples=[
            ('eval "$(aioprod completion bash)"', "in ~/.bashrc, or ~/.zshrc with zsh"),
            ("aioprod completion fish > ~/.config/fish/completions/aioprod.fish", "for fish"),
        ],
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=list(_SCRIPTS), help="for which shell")
    return parser
