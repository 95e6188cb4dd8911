"""`aioprod configs`: the settings of topics and brokers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from aioprod.admin import Admin
from aioprod.cli.administration import answer, run_with_admin
from aioprod.cli.connection import add_connection_options, assignment
from aioprod.console.frame import Parser
from aioprod.console.tables import Table
from aioprod.errors import UsageError

__all__ = ["main", "make_parser"]

_EXAMPLES: Final = (
    ("aioprod configs describe topic orders -b localhost:9092", "what is not at its default"),
    ("aioprod configs describe broker 1 --all --json -b localhost:9092", "everything"),
    (
        "aioprod configs alter topic orders --set retention.ms=86400000 -b localhost:9092",
        "change",
    ),
)
_HIDDEN: Final = "[hidden]"


def main(arguments: Sequence[str]) -> int:
    """Run one of the actions; returns 0 when it was done."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    return run_with_admin(parser, given, _describe if given.action == "describe" else _alter)


async def _describe(admin: Admin, given: Namespace) -> int:
    found = await admin.describe_configs(given.kind, given.name)
    entries = [entry for entry in found.values() if given.all or not entry.is_default]
    document = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source,
            "default": entry.is_default,
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
        }
        for entry in entries
    ]
    rows: list[tuple[object, ...]] = [
        (entry.name, _HIDDEN if entry.is_sensitive else entry.value, entry.source) for entry in entries
    ]
    says = "" if given.all else f"{len(found) - len(entries)} more are at their defaults (--all)."
    heading = f"Settings of {given.kind} {given.name}"
    answer(given, document, lambda: [Table(heading, says, ("setting", "value", "source"), rows)])
    return 0


async def _alter(admin: Admin, given: Namespace) -> int:
    to_set, reset = dict(given.set_to or ()), list(given.reset or ())
    if not to_set and not reset:
        raise UsageError("Nothing is to be changed.", hint="Give --set NAME=VALUE, or --reset NAME.")
    await admin.alter_configs(given.kind, given.name, to_set, reset=reset, validate_only=given.dry_run)
    done = "could be changed" if given.dry_run else "are changed"
    document = {"kind": given.kind, "name": given.name, "set": to_set, "reset": reset, "changed": not given.dry_run}
    answer(given, document, lambda: [f"The settings of {given.kind} {given.name!r} {done}."])
    return 0


def make_parser() -> Parser:
    """The parser of `aioprod configs`."""
    parser = Parser(
        prog="aioprod configs",
        description="Describe and change the settings of topics and brokers.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    each = actions.add_parser(
        "describe",
        help="settings with where they come from",
        description="Show settings that have another value than the default.",
    )
    _resource(each, ["topic", "broker"])
    each.add_argument("--all", action="store_true", help="those at their default, too")
    _common(each)
    each = actions.add_parser(
        "alter", help="change some settings", description="Change some settings, and leave the others as they are."
    )
    _resource(each, ["topic", "broker"])
    each.add_argument(
        "--set", dest="set_to", action="append", type=assignment, metavar="NAME=VALUE", help="set one; may be repeated"
    )
    each.add_argument("--reset", action="append", metavar="NAME", help="bring the default back; may be repeated")
    each.add_argument("--dry-run", action="store_true", help="have the brokers only check the change")
    _common(each)
    return parser


def _resource(parser: Parser, kinds: list[str]) -> None:
    parser.add_argument("kind", choices=kinds, help="what it is")
    parser.add_argument("name", metavar="NAME", help="the topic's name, or the broker's id")


def _common(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="write a JSON document to stdout")
    add_connection_options(parser)
