"""What the commands of administration share: a client, and an answer as JSON or as tables."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from aioprod.admin import Admin
from aioprod.cli.connection import config_of
from aioprod.cli.running import run_command
from aioprod.config import SessionConfig
from aioprod.console.escapes import json_text
from aioprod.console.frame import Parser
from aioprod.console.tables import Part
from aioprod.console.terminal import show
from aioprod.errors import UnknownTopicError, UsageError

__all__ = ["answer", "confirmed", "known", "run_with_admin"]

T = TypeVar("T")


def run_with_admin(parser: Parser, given: Namespace, work: Callable[[Admin, Namespace], Awaitable[int]]) -> int:
    """Run `work` with a connected client; returns its status."""
    with parser.usage_errors():
        config = config_of(given, SessionConfig, {"client.id": "aioprod-admin"})

    async def inside() -> int:
        async with Admin(config=config) as admin:
            return await work(admin, given)

    return run_command(inside())


def answer(given: Namespace, document: Any, parts: Callable[[], Iterable[Part]]) -> None:
    """Write the document, as JSON, where that is wanted, else paragraphs and tables."""
    if given.json:
        sys.stdout.write(f"{json_text(document)}\n")
    else:
        show(parts(), sys.stdout)


def confirmed(given: Namespace, what: str) -> bool:
    """Whether to do it: `--yes`, or a yes on a terminal; raises UsageError where there is none."""
    if given.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{what} needs a yes.", hint="Add --yes, or run it on a terminal.")
    sys.stderr.write(f"{what} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def known(name: str, names: Iterable[str]) -> str:
    """The name itself; raises UnknownTopicError, with the nearest ones, unless it is one of the topics."""
    existing = list(names)
    if name in existing:
        return name
    near = get_close_matches(name, existing, n=3)
    hint = (
        f"Did you mean {' or '.join(near)}?" if near else "`aioprod topics list` lists those that this client may see."
    )
    raise UnknownTopicError(f"Topic {name!r} does not exist.", hint=hint)
