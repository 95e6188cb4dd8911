"""`aioprod assign`: which member reads which partitions, and what a rebalance would move."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from aioprod._words import counted
from aioprod.cli.arguments import members_of, subscriptions, topics_of, unique
from aioprod.cli.assignment_file import read_assignment, read_sizes, written
from aioprod.cli.picture import picture_of
from aioprod.cli.rebalances import Assigned, partition_count, rebalances
from aioprod.console.files import write
from aioprod.console.frame import Parser
from aioprod.console.pictures import KINDS, picture_file
from aioprod.console.tables import Part
from aioprod.console.terminal import show
from aioprod.errors import UsageError
from aioprod.group.assignors import ASSIGNORS, Balance, Comparison, balance, compare
from aioprod.group.assignors.comparison import ROWS_SHOWN
from aioprod.group.assignors.tables import balance_parts, comparison_parts

__all__ = ["main", "make_parser"]

_EXAMPLES: Final = (
    (
        "aioprod assign --topics orders=12,clicks=6 --members a,b,c --strategy sticky --json now.json",
        "three members that read both topics; keep the assignment",
    ),
    (
        "aioprod assign --topics orders=12,clicks=6 --members a,b --strategy sticky --before now.json",
        "what moves when one of them leaves",
    ),
    (
        "aioprod assign --topics orders=12,clicks=6 --members web=8:orders,audit:orders+clicks --strategy range",
        "members that read different topics",
    ),
    ("aioprod assign --topics orders=64 --members 5", "all strategies side by side"),
)


def main(arguments: Sequence[str]) -> int:
    """Assign and show; returns 0. What is wrong with the arguments ends the program with 2."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    with _blaming(parser, "--topics"):
        topics = unique(given.topics)
    with _blaming(parser, "--members"):
        members = subscriptions(list(topics), given.members)
    before, sizes = given.before or ({}, None)
    with _blaming(parser, "--before"):
        balance(before)
    rounds = rebalances(ASSIGNORS[given.strategy], topics, members, before)
    after = rounds[-1]
    with _blaming(parser, "--before" if given.sizes is None else "--sizes"):
        sizes = sizes if given.sizes is None else given.sizes
        found = balance(after, sizes=sizes) if given.before is None else compare(before, after, sizes=sizes)
    if given.json is not None:
        with _blaming(parser, "--json"):
            write(given.json, written(given.strategy, after, sizes), "The assignment")
    if given.picture is not None:
        with _blaming(parser, "--picture"):
            drawn = picture_of(found, given.picture.suffix[1:], _title(given.strategy, found))
            write(given.picture, drawn, "The picture")
    if given.json != "-":
        show(_parts(given, topics, rounds, found), sys.stdout)
    return 0


def _parts(
    given: Any, topics: Mapping[str, int], rounds: Sequence[Assigned], found: Balance | Comparison
) -> Iterator[Part]:
    partitions, members = counted(sum(topics.values()), "partition", ","), counted(len(rounds[-1]), "member", ",")
    yield f"{given.strategy}: {partitions} of {counted(len(topics), 'topic', ',')}, {members}."
    if len(rounds) > 1:
        taken = partition_count(rounds[-1]) - partition_count(rounds[0])
        yield (
            f"It takes {len(rounds)} rebalances: the first one takes {taken:,} partitions from their members, the next "
            "one gives them to others. This is the end of it."
        )
    rows_max = None if given.all else ROWS_SHOWN
    yield from balance_parts(found, rows_max) if isinstance(found, Balance) else comparison_parts(found, rows_max)
    files = (("assignment", given.json), ("picture", given.picture))
    yield from (f"The {what} is in {path}." for what, path in files if path is not None)


def _title(strategy: str, found: Balance | Comparison) -> str:
    if isinstance(found, Balance):
        return f"{strategy}: {counted(len(found.sizes), 'partition', ',')}, {counted(len(found.owned), 'member', ',')}"
    whole = len(found.moved) + found.kept
    return (
        f"{strategy}: {len(found.moved):,} of {counted(whole, 'partition', ',')} moved, "
        f"{counted(len(found.before.owned), 'member', ',')} before and {len(found.after.owned):,} after"
    )


@contextmanager
def _blaming(parser: Parser, argument: str) -> Iterator[None]:
    try:
        yield
    except (ArgumentTypeError, UsageError) as error:
        parser.error(f"argument {argument}: {error}")


def make_parser() -> Parser:
    """The parser of `aioprod assign`."""
    parser = Parser(
        prog="aioprod assign",
        description="Show which member of a consumer group reads which partitions, and what a rebalance would move.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--topics",
        type=topics_of,
        action="extend",
        required=True,
        metavar="TOPIC=COUNT,...",
        help="the topics, each with its number of partitions",
    )
    parser.add_argument(
        "--members",
        type=members_of,
        action="extend",
        required=True,
        metavar="MEMBER,...",
        help="the members: a,b,c are three that read all topics, and so are 3 and web=3 (web-0 to web-2); "
        "a:orders+clicks reads these two",
    )
    parser.add_argument(
        "--strategy",
        choices=tuple(ASSIGNORS),
        default="cooperative-sticky",
        help="how to assign (default: %(default)s)",
    )
    parser.add_argument(
        "--before", type=read_assignment, metavar="FILE", help="the present assignment, as --json has written it"
    )
    parser.add_argument(
        "--sizes",
        type=read_sizes,
        metavar="FILE",
        help='what partitions weigh, to show load instead of counts: JSON, {"orders": [700, 200, ...], ...}; '
        "default: what the file of --before says; strategies don't look at it",
    )
    parser.add_argument("--json", metavar="FILE", help="write the assignment there ('-': to stdout, and nothing else)")
    parser.add_argument(
        "--picture",
        type=picture_file,
        metavar="FILE",
        help=f"draw the assignment, as {', '.join(KINDS)} by the file's name",
    )
    parser.add_argument("--all", action="store_true", help="show all members and partitions, however many there are")
    return parser
