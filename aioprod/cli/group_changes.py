"""The actions of `aioprod groups` that change something: reset and delete offsets, delete groups."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace, _SubParsersAction
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aioprod._words import counted
from aioprod.admin import Admin, GroupDescription, OffsetChange
from aioprod.cli.administration import answer, confirmed
from aioprod.cli.arguments import partitions_of
from aioprod.cli.times import timestamp_ms
from aioprod.console.frame import Parser
from aioprod.console.tables import Table
from aioprod.console.terminal import show
from aioprod.errors import UsageError
from aioprod.types import TopicPartition

__all__ = ["add_actions", "delete", "delete_offsets", "reset"]

# --- reset


async def reset(admin: Admin, given: Namespace) -> int:
    """Show the offsets before and after, and commit them if that is wanted."""
    planned = await _planned(admin, given)
    document = {
        "group": given.group,
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "before": change.before, "after": change.after}
            for tp, change in planned.items()
        ],
    }
    if given.dry_run:
        answer(given, document | {"reset": False}, lambda: [_plan(given, planned, "Nothing was committed.")])
        return 0
    if not given.yes and not given.json:
        show([_plan(given, planned, "Where its offsets would go:")], sys.stderr)
    if not confirmed(given, f"To reset {counted(len(planned), 'offset')} of group {given.group!r}"):
        sys.stderr.write("Nothing was committed.\n")
        return 1
    await admin.reset_offsets(given.group, {tp: change.after for tp, change in planned.items()})
    answer(given, document | {"reset": True}, lambda: [_plan(given, planned, "Its offsets are reset.")])
    return 0


async def _planned(admin: Admin, given: Namespace) -> dict[TopicPartition, OffsetChange]:
    chosen = [one for each in given.topic for one in each] if given.topic else None
    if given.shift is not None:
        return await admin.reset_offsets(given.group, shift_by=given.shift, partitions=chosen, dry_run=True)
    if given.to_offset is None:
        return await admin.reset_offsets(given.group, given.to, partitions=chosen, dry_run=True)
    found = await admin.reset_offsets(given.group, "latest", partitions=chosen, dry_run=True)
    return await admin.reset_offsets(given.group, dict.fromkeys(found, given.to_offset), dry_run=True)


def _plan(given: Namespace, planned: Mapping[TopicPartition, OffsetChange], says: str) -> Table:
    rows: list[tuple[object, ...]] = [
        (tp.topic, tp.partition, change.before, change.after) for tp, change in planned.items()
    ]
    return Table(f"Group {given.group}", says, ("topic", "partition", "before", "after"), rows)


# --- delete-offsets


async def delete_offsets(admin: Admin, given: Namespace) -> int:
    """Delete what the group has committed for topics."""
    group = (await admin.describe_groups([given.group]))[given.group]
    committed = {tp: at.offset for tp, at in (await admin.group_offsets(given.group)).items()}
    wanted = {tp: committed[tp] for tp in _named(given, committed)}
    read = {tp.topic for member in group.members for tp in member.partitions}.intersection(tp.topic for tp in wanted)
    if read:
        raise UsageError(
            f"Nothing was deleted: members of group {given.group!r} read {', '.join(sorted(read))}.",
            hint="Close its members first.",
        )
    document = {
        "group": given.group,
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "committed": offset} for tp, offset in wanted.items()
        ],
    }
    if given.dry_run:
        rows: list[tuple[object, ...]] = [(tp.topic, tp.partition, offset) for tp, offset in wanted.items()]
        table = Table(f"Group {given.group}", "Nothing was deleted.", ("topic", "partition", "committed"), rows)
        answer(given, document | {"deleted": False}, lambda: [table])
        return 0
    offsets = f"{counted(len(wanted), 'offset')} of group {given.group!r}"
    if not confirmed(given, f"To delete {offsets}"):
        sys.stderr.write("Nothing was deleted.\n")
        return 1
    await admin.delete_offsets(given.group, wanted)
    answer(given, document | {"deleted": True}, lambda: [f"Deleted: {offsets}."])
    return 0


def _named(given: Namespace, committed: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions that --topic names; raises UsageError for one for which nothing is committed."""
    known = list(committed)
    wanted: set[TopicPartition] = set()
    for one in [one for each in given.topic for one in each]:
        found = [tp for tp in known if one in (tp, tp.topic)]
        if not found:
            place = f"topic {one!r}" if isinstance(one, str) else f"{one.topic}-{one.partition}"
            topics = ", ".join(sorted({tp.topic for tp in known})) or "nothing"
            raise UsageError(
                f"Group {given.group!r} has committed nothing for {place}.", hint=f"It has committed for {topics}."
            )
        wanted.update(found)
    return sorted(wanted)


# --- delete


async def delete(admin: Admin, given: Namespace) -> int:
    """Delete groups that have no members."""
    names = list(dict.fromkeys(given.groups))
    if given.if_exists:
        existing = {group.group_id for group in await admin.groups()}
        names = [name for name in names if name in existing]
    described = await admin.describe_groups(names)
    _check_unused(described.values())
    offsets = {name: len(await admin.group_offsets(name)) for name in names}
    document = {"groups": [{"group": name, "offsets": count} for name, count in offsets.items()]}
    if given.dry_run:
        table = Table("Groups", "Nothing was deleted.", ("group", "offsets"), [*offsets.items()])
        answer(given, document | {"deleted": False}, lambda: [table])
        return 0
    if names and not confirmed(given, f"To delete {', '.join(names)} with all that they have committed"):
        sys.stderr.write("Nothing was deleted.\n")
        return 1
    await admin.delete_groups(*names)
    answer(given, document | {"deleted": True}, lambda: [f"Deleted: {', '.join(names) or 'nothing'}."])
    return 0


def _check_unused(groups: Iterable[GroupDescription]) -> None:
    for group in groups:
        if not group.is_empty:
            members = counted(len(group.members), "member")
            raise UsageError(
                f"Nothing was deleted: group {group.group_id!r} is {group.state}, with {members}.",
                hint="Close its members first.",
            )


# --- arguments


def add_actions(actions: _SubParsersAction[Parser], common: Callable[[Parser], None]) -> None:
    """Add the parsers of the actions; `common` adds the arguments that all have."""
    _add_reset(
        actions.add_parser(
            "reset",
            help="have a group read from other offsets",
            description="Commit other offsets for a group that has no members, after showing those before and after: "
            "for all partitions for which it has committed, or for those of --topic.",
        ),
        common,
    )
    each = actions.add_parser(
        "delete-offsets",
        help="forget what a group has committed for topics",
        description="Delete the offsets that a group has committed for topics that none of its members reads.",
    )
    each.add_argument("group", metavar="GROUP", help="its name")
    _add_topics(each, required=True)
    _add_consent(each, "only show the offsets that would be deleted")
    common(each)
    each = actions.add_parser(
        "delete",
        help="delete groups",
        description="Delete groups that have no members, with all that they have committed.",
    )
    each.add_argument("groups", metavar="GROUP", nargs="+", help="their names")
    each.add_argument("--if-exists", action="store_true", help="leave out those that do not exist")
    _add_consent(each, "only show the groups that would be deleted, and how many offsets they have committed")
    common(each)


def _add_reset(parser: Parser, common: Callable[[Parser], None]) -> None:
    parser.add_argument("group", metavar="GROUP", help="its name")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument(
        "--to-earliest", dest="to", action="store_const", const="earliest", help="to the start of each log"
    )
    place.add_argument("--to-latest", dest="to", action="store_const", const="latest", help="to the end of each log")
    place.add_argument(
        "--to-time",
        dest="to",
        type=timestamp_ms,
        metavar="TIME",
        help="to the first record that is not older: ISO 8601, or milliseconds; to the end where all are older",
    )
    place.add_argument("--to-offset", type=_offset, metavar="OFFSET", help="to this offset, in each partition")
    place.add_argument(
        "--shift", type=int, metavar="COUNT", help="so many offsets on, or back if it is negative, as in --shift -100"
    )
    _add_topics(parser, required=False)
    _add_consent(parser, "only show the offsets, and commit nothing")
    common(parser)


def _add_topics(parser: Parser, *, required: bool) -> None:
    parser.add_argument(
        "--topic",
        action="append",
        type=partitions_of,
        required=required,
        metavar="TOPIC[:0,1]",
        help="a topic, or some of its partitions; may be repeated",
    )


def _add_consent(parser: Parser, dry_run: str) -> None:
    parser.add_argument("--dry-run", action="store_true", help=dry_run)
    parser.add_argument("--yes", action="store_true", help="do not prompt")


def _offset(text: str) -> Any:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not an offset, a whole number from 0 on")
    return int(text)
