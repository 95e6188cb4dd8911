"""`aioprod offsets`: where the partitions of a topic begin, end, or were at a time."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from aioprod.admin import Admin
from aioprod.cli.administration import answer, known, run_with_admin
from aioprod.cli.connection import add_connection_options
from aioprod.cli.times import timestamp_ms
from aioprod.console.frame import Parser
from aioprod.console.tables import Table

__all__ = ["main", "make_parser"]

_EXAMPLES: Final = (
    ("aioprod offsets orders -b localhost:9092", "the end of each partition"),
    ("aioprod offsets orders --at 2026-11-01T10:00 --json -b localhost:9092", "the first record since then"),
)


def main(arguments: Sequence[str]) -> int:
    """Show the offsets; returns 0."""
    parser = make_parser()
    return run_with_admin(parser, parser.parse_args(arguments), _offsets)


async def _offsets(admin: Admin, given: Namespace) -> int:
    known(given.topic, await admin.topics(internal=True))
    found = await admin.offsets(given.topic, given.at)
    rows = [(tp.partition, offset) for tp, offset in sorted(found.items())]
    document = {
        "topic": given.topic,
        "at": given.at,
        "partitions": [{"partition": partition, "offset": offset} for partition, offset in rows],
    }
    table = Table(f"Topic {given.topic}", f"Offsets at {given.at}.", ("partition", "offset"), [*rows])
    answer(given, document, lambda: [table])
    return 0


def _at(text: str) -> Any:
    return text if text in ("earliest", "latest") else timestamp_ms(text)


def make_parser() -> Parser:
    """The parser of `aioprod offsets`."""
    parser = Parser(
        prog="aioprod offsets",
        description="Show an offset of each partition of a topic: its first, its end, or the first since a time.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    parser.add_argument("topic", metavar="TOPIC", help="its name")
    parser.add_argument(
        "--at",
        type=_at,
        default="latest",
        metavar="PLACE",
        help="earliest, latest (the default), or a time: ISO 8601, or milliseconds; the end where all are older",
    )
    parser.add_argument("--json", action="store_true", help="write a JSON document to stdout")
    add_connection_options(parser)
    return parser
