"""`aioprod groups`: list groups, describe their members, show their lag; reset offsets, delete offsets and groups."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from aioprod.admin import Admin, GroupDescription
from aioprod.cli.administration import answer, run_with_admin
from aioprod.cli.connection import add_connection_options
from aioprod.cli.group_changes import add_actions, delete, delete_offsets, reset
from aioprod.console.frame import Parser
from aioprod.console.tables import Table
from aioprod.console.terminal import redraws, show
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["main", "make_parser"]

_EXAMPLES: Final = (
    ("aioprod groups list -b localhost:9092", "all groups with their states"),
    ("aioprod groups describe billing -b localhost:9092", "members, and what they are assigned"),
    ("aioprod groups lag billing --watch -b localhost:9092", "how far it is behind, again and again"),
    ("aioprod groups reset billing --to-time 2026-11-01T10:00 --dry-run -b localhost:9092", "what it would read again"),
    (
        "aioprod groups reset billing --shift -100 --topic orders:0,1 -b localhost:9092",
        "100 records back in two places",
    ),
    ("aioprod groups delete old-1 old-2 --yes -b localhost:9092", "groups that are not used any more"),
)
_CLEAR: Final = "\x1b[H\x1b[2J"


def main(arguments: Sequence[str]) -> int:
    """Run one of the actions; returns 0 when it was done."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    return run_with_admin(parser, given, _ACTIONS[given.action])


async def _list(admin: Admin, given: Namespace) -> int:
    groups = await admin.groups()
    document = [
        {"group": one.group_id, "state": one.state, "type": one.type, "protocol_type": one.protocol_type}
        for one in groups
    ]
    rows: list[tuple[object, ...]] = [(one.group_id, one.state, one.type, one.protocol_type or None) for one in groups]
    says = "" if rows else "There is none that this client may see."
    answer(given, document, lambda: [Table("Groups", says, ("group", "state", "type", "members are"), rows)])
    return 0


async def _describe(admin: Admin, given: Namespace) -> int:
    described = await admin.describe_groups(given.groups)
    answer(given, [_document(one) for one in described.values()], lambda: [_members(one) for one in described.values()])
    return 0


def _document(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "coordinator": None if group.coordinator is None else group.coordinator.id,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": [[tp.topic, tp.partition] for tp in member.partitions],
            }
            for member in group.members
        ],
    }


def _members(group: GroupDescription) -> Table:
    rows: list[tuple[object, ...]] = [
        (
            member.client_id or None,
            member.client_host,
            member.group_instance_id or member.member_id,
            _named(member.partitions),
        )
        for member in group.members
    ]
    broker = "no broker" if group.coordinator is None else f"broker {group.coordinator.id}"
    says = f"{group.state}, {group.type} protocol, assignor {group.assignor or 'none yet'}, coordinated by {broker}."
    return Table(f"Group {group.group_id}", says, ("client", "host", "member", "partitions"), rows)


def _named(partitions: Sequence[TopicPartition]) -> str:
    by_topic = groupby(sorted(partitions), key=lambda tp: tp.topic)
    return " ".join(f"{topic}:{','.join(str(tp.partition) for tp in each)}" for topic, each in by_topic) or "none"


async def _lag(admin: Admin, given: Namespace) -> int:
    while True:
        committed = await admin.group_offsets(given.group)
        if not committed:
            # Raises where the group does not exist.
            await admin.describe_groups([given.group])
        lag = await admin.group_lag(given.group) if committed else {}
        _show_lag(given, committed, lag)
        if not given.watch:
            return 0
        sys.stdout.flush()
        await asyncio.sleep(given.every)


def _show_lag(
    given: Namespace, committed: Mapping[TopicPartition, OffsetAndMetadata], lag: Mapping[TopicPartition, int | None]
) -> None:
    total = sum(behind or 0 for behind in lag.values())
    if given.json:
        document = {
            "group": given.group,
            "time": round(time.time(), 3),
            "total": total,
            "partitions": [
                {"topic": tp.topic, "partition": tp.partition, "committed": committed[tp].offset, "lag": behind}
                for tp, behind in lag.items()
                if tp in committed
            ],
        }
        sys.stdout.write(f"{json.dumps(document)}\n")
        return
    rows: list[tuple[object, ...]] = [
        (
            tp.topic,
            tp.partition,
            committed[tp].offset,
            None if behind is None else committed[tp].offset + behind,
            behind,
        )
        for tp, behind in lag.items()
        if tp in committed
    ]
    if given.watch and redraws(sys.stdout):
        sys.stdout.write(_CLEAR)
    says = f"{total:,} offsets behind in all." if rows else "It has committed nothing."
    show([Table(f"Group {given.group}", says, ("topic", "partition", "committed", "end", "lag"), rows)], sys.stdout)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise ArgumentTypeError(f"{text!r} is not a time in seconds, from 0.1 on")
    return seconds


_ACTIONS: Final = {
    "list": _list,
    "describe": _describe,
    "lag": _lag,
    "reset": reset,
    "delete-offsets": delete_offsets,
    "delete": delete,
}


def make_parser() -> Parser:
    """The parser of `aioprod groups`."""
    parser = Parser(
        prog="aioprod groups",
        description="List groups, describe their members, and show how far they are behind. Reset and delete committed "
        "offsets, and delete groups.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    each = actions.add_parser("list", help="groups with their states", description="List groups.")
    _common(each)
    each = actions.add_parser(
        "describe", help="members, and what they are assigned", description="Describe the members of groups."
    )
    each.add_argument("groups", metavar="GROUP", nargs="+", help="their names")
    _common(each)
    each = actions.add_parser(
        "lag",
        help="how far a group is behind",
        description="Show the committed offset, the end and the lag of each partition. It is a dash for a partition "
        "that does not exist any more.",
    )
    each.add_argument("group", metavar="GROUP", help="its name")
    each.add_argument("--watch", action="store_true", help="show it again and again, until interrupted")
    each.add_argument("--every", type=_seconds, default=2.0, metavar="SECONDS", help="how often (default: 2)")
    _common(each)
    add_actions(actions, _common)
    return parser


def _common(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON to stdout, a document in a line")
    add_connection_options(parser)
