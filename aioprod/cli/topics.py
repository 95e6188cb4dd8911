"""`aioprod topics`: list, describe, create, delete and grow topics."""

from __future__ import annotations

import contextlib
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from aioprod.admin import Admin
from aioprod.cli.administration import answer, confirmed, known, run_with_admin
from aioprod.cli.arguments import count_of
from aioprod.cli.connection import add_connection_options, assignment
from aioprod.cluster import PartitionInfo
from aioprod.console.frame import Parser
from aioprod.console.tables import Table, percent
from aioprod.errors import AuthorizationError, TopicExistsError
from aioprod.routing import moved_share
from aioprod.types import TopicPartition

__all__ = ["main", "make_parser"]

_EXAMPLES: Final = (
    ("aioprod topics list -b localhost:9092", "all topics with their numbers of partitions"),
    ("aioprod topics describe orders -b localhost:9092", "leaders, replicas and sizes"),
    ("aioprod topics create orders --partitions 12 --config retention.ms=86400000 -b localhost:9092", "a new topic"),
    ("aioprod topics grow orders --partitions 24 --dry-run -b localhost:9092", "how many keys would move"),
)


def main(arguments: Sequence[str]) -> int:
    """Run one of the actions; returns 0 when it was done, 1 when not."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    return run_with_admin(parser, given, _ACTIONS[given.action])


async def _list(admin: Admin, given: Namespace) -> int:
    described = await admin.describe_topics(internal=given.internal)
    rows = [(name, len(partitions)) for name, partitions in described.items()]
    document = [{"topic": name, "partitions": count} for name, count in rows]
    says = "" if rows else "There is none that this client may see."
    answer(given, document, lambda: [Table("Topics", says, ("topic", "partitions"), [*rows])])
    return 0


async def _describe(admin: Admin, given: Namespace) -> int:
    described = await admin.describe_topics(internal=bool(given.topics))
    if given.topics:
        described = {name: described[known(name, described)] for name in given.topics}
    sizes: dict[TopicPartition, dict[int, int]] | None = None
    with contextlib.suppress(AuthorizationError):  # Sizes need a right that the rest does not.
        sizes = await admin.topic_sizes(described)
    document = [
        {"topic": name, "partitions": [_partition(info, sizes) for info in partitions]}
        for name, partitions in described.items()
    ]
    answer(given, document, lambda: [_table(name, partitions, sizes) for name, partitions in described.items()])
    return 0


def _partition(info: PartitionInfo, sizes: dict[TopicPartition, dict[int, int]] | None) -> dict[str, Any]:
    return {
        "partition": info.partition,
        "leader": None if info.leader is None else info.leader.id,
        "replicas": [node.id for node in info.replicas],
        "isr": [node.id for node in info.in_sync_replicas],
        "offline": [node.id for node in info.offline_replicas],
        "bytes": None if sizes is None else max(sizes.get(TopicPartition(info.topic, info.partition), {0: 0}).values()),
        "state": _state(info),
    }


def _state(info: PartitionInfo) -> str:
    if info.leader is None:
        return "no leader"
    return "under-replicated" if len(info.in_sync_replicas) < len(info.replicas) else "ok"


def _table(name: str, partitions: Sequence[PartitionInfo], sizes: dict[TopicPartition, dict[int, int]] | None) -> Table:
    rows: list[tuple[object, ...]] = []
    for info in partitions:
        row = _partition(info, sizes)
        nodes = (" ".join(map(str, row[kind])) for kind in ("replicas", "isr"))
        rows.append((row["partition"], row["leader"], *nodes, row["bytes"], row["state"]))
    broken = sum(_state(info) != "ok" for info in partitions)
    says = f"{broken} of {len(partitions)} partitions are not as they should be." if broken else ""
    return Table(f"Topic {name}", says, ("partition", "leader", "replicas", "in sync", "bytes", "state"), rows)


async def _create(admin: Admin, given: Namespace) -> int:
    is_new = True
    try:
        await admin.create_topic(
            given.topic,
            partitions=given.partitions or -1,
            replication_factor=given.replication_factor or -1,
            config=dict(given.config or ()),
        )
    except TopicExistsError:
        if not given.if_not_exists:
            raise
        is_new = False
    said = f"Topic {given.topic!r} {'is created' if is_new else 'existed already, and was not changed'}."
    answer(given, {"topic": given.topic, "created": is_new}, lambda: [said])
    return 0


async def _delete(admin: Admin, given: Namespace) -> int:
    names = await admin.topics(internal=True)
    wanted = [name for name in given.topics if name in names or not given.if_exists]
    for name in wanted:
        known(name, names)
    if wanted and not confirmed(given, f"To delete {', '.join(wanted)} with all records"):
        sys.stderr.write("Nothing was deleted.\n")
        return 1
    await admin.delete_topics(wanted)
    answer(given, {"deleted": wanted}, lambda: [f"Deleted: {', '.join(wanted) or 'nothing'}."])
    return 0


async def _grow(admin: Admin, given: Namespace) -> int:
    known(given.topic, await admin.topics(internal=True))
    before = len(await admin.partitions(given.topic))
    share = moved_share(before, given.partitions) if given.partitions > before else 0.0
    moves = (
        f"From {before} to {given.partitions} partitions, {percent(share)} of keys move to another partition: their "
        "earlier and later records are not in one order any more."
    )
    document = {"topic": given.topic, "before": before, "after": given.partitions, "moved_share": share}
    if given.dry_run:
        answer(given, document | {"grown": False}, lambda: [moves])
        return 0
    if not given.json:
        sys.stderr.write(f"{moves}\n")
    if not confirmed(given, f"To give topic {given.topic!r} {given.partitions} partitions"):
        sys.stderr.write("Nothing was changed.\n")
        return 1
    await admin.create_partitions(given.topic, given.partitions)
    answer(given, document | {"grown": True}, lambda: [f"Topic {given.topic!r} has {given.partitions} partitions."])
    return 0


_ACTIONS: Final = {"list": _list, "describe": _describe, "create": _create, "delete": _delete, "grow": _grow}


def make_parser() -> Parser:
    """The parser of `aioprod topics`."""
    parser = Parser(
        prog="aioprod topics",
        description="List, describe, create, delete and grow topics.",
        examples=_EXAMPLES,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    each = actions.add_parser("list", help="names and numbers of partitions", description="List topics.")
    each.add_argument("--internal", action="store_true", help="with Kafka's own topics")
    _common(each)
    each = actions.add_parser(
        "describe", help="leaders, replicas, what is in sync, sizes", description="Describe the partitions of topics."
    )
    each.add_argument("topics", metavar="TOPIC", nargs="*", help="those to describe, by default all")
    _common(each)
    each = actions.add_parser("create", help="create a topic", description="Create a topic, and wait for its leaders.")
    each.add_argument("topic", metavar="TOPIC", help="its name")
    each.add_argument("--partitions", type=count_of, metavar="COUNT", help="how many (default: the brokers')")
    each.add_argument("--replication-factor", type=count_of, metavar="COUNT", help="replicas (default: the brokers')")
    each.add_argument("--config", action="append", type=assignment, metavar="NAME=VALUE", help="a setting")
    each.add_argument("--if-not-exists", action="store_true", help="leave a topic of this name as it is, and succeed")
    _common(each)
    each = actions.add_parser("delete", help="delete topics", description="Delete topics with all of their records.")
    each.add_argument("topics", metavar="TOPIC", nargs="+", help="their names")
    each.add_argument("--if-exists", action="store_true", help="leave out those that do not exist")
    each.add_argument("--yes", action="store_true", help="do not prompt")
    _common(each)
    each = actions.add_parser(
        "grow",
        help="give a topic more partitions",
        description="Give a topic more partitions, after saying how many keys go to another one then.",
    )
    each.add_argument("topic", metavar="TOPIC", help="its name")
    each.add_argument("--partitions", type=count_of, required=True, metavar="COUNT", help="how many it is to have")
    each.add_argument("--dry-run", action="store_true", help="only say how many keys would move")
    each.add_argument("--yes", action="store_true", help="do not prompt")
    _common(each)
    return parser


def _common(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="write a JSON document to stdout")
    add_connection_options(parser)
