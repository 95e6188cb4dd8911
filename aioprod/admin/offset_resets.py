"""Resetting the committed offsets of a group that is not in use (OffsetCommit from outside of the group)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from aioprod._words import counted
from aioprod.admin.groups import describe_groups
from aioprod.admin.topics import check_partitions_exist
from aioprod.calls.committed_offsets import all_offsets, stable_offsets
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session, check_topic_name
from aioprod.errors import BrokerError, ConfigError, ErrorCode, UsageError
from aioprod.group.offsets import commit_offsets
from aioprod.group.validation import checked_group, checked_offsets, checked_partitions
from aioprod.reader.offsets import EARLIEST, LATEST, At, look_up, offsets_at, timestamp_of
from aioprod.types import GroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["OffsetChange", "Partitions", "Target", "reset_offsets"]

Partitions: TypeAlias = str | TopicPartition | Iterable[str | TopicPartition]
"""Partitions, and names of topics, which stand for all of their partitions."""

Target: TypeAlias = At | Mapping[TopicPartition, int]
"""The start of each log, its end, the first record that is not older than a time, or an offset for each partition."""

_ISOLATION: Final = "read_uncommitted"
_IN_USE: Final = "Close its members first; one that was killed leaves when its session has timed out."


class OffsetChange(NamedTuple):
    """What a group had committed for a partition, None for nothing, and what it has committed after a reset."""

    before: int | None
    after: int


class _Goal(NamedTuple):
    """Where offsets go: exactly one of the three is given."""

    timestamp: int | None = None
    """In ms, or EARLIEST or LATEST."""
    offsets: Mapping[TopicPartition, int] | None = None
    shift_by: int | None = None


async def reset_offsets(
    session: Session,
    group_id: str,
    to: Target | None,
    shift_by: int | None,
    partitions: Partitions | None,
    dry_run: bool,
    deadline: float,
) -> dict[TopicPartition, OffsetChange]:
    """Commit other offsets for a group without members; with `dry_run` only compute them.

    Either `to` or `shift_by` is given. Transactions that may still change the offsets are waited for.
    """
    goal = _checked_goal(to, shift_by, partitions)
    coordinator = Coordinator(session.client, "group", checked_group(group_id))
    await _check_unused(session, group_id, deadline)
    chosen = tuple(goal.offsets) if goal.offsets is not None else await _chosen(session, partitions)
    if chosen is None:
        chosen = tuple(await all_offsets(coordinator, deadline))
        if not chosen:
            raise UsageError(f"Group {group_id!r} has committed nothing: name the topics to set its offsets for.")
    await check_partitions_exist(session, chosen)
    before = await stable_offsets(coordinator, chosen, deadline, may_be_old=True)
    after = await _resolved(session, group_id, goal, before)
    if not dry_run:
        await _commit(coordinator, after, deadline)
    changes = {tp: OffsetChange(None if was is None else was.offset, after[tp]) for tp, was in before.items()}
    return dict(sorted(changes.items()))


# --- arguments


def _checked_goal(to: Target | None, shift_by: int | None, partitions: Partitions | None) -> _Goal:
    if (to is None) == (shift_by is None):
        raise ConfigError("Give either a place to reset the offsets to, or shift_by.")
    if shift_by is not None:
        if isinstance(shift_by, bool) or not isinstance(shift_by, int):
            raise ConfigError(f"shift_by is {shift_by!r:.60}: give a number of offsets, negative to read some again.")
        return _Goal(shift_by=shift_by)
    if not isinstance(to, Mapping):
        return _Goal(timestamp=timestamp_of("to", to))
    if partitions is not None:
        raise ConfigError("The offsets to reset to name their partitions: leave `partitions` out.")
    return _Goal(offsets={tp: offset for tp, (offset, _) in checked_offsets(to).items()})


async def _chosen(session: Session, partitions: Partitions | None) -> tuple[TopicPartition, ...] | None:
    """The partitions that were named, directly or by their topics; None for those that the group has committed."""
    if partitions is None:
        return None
    if isinstance(partitions, str | TopicPartition):
        partitions = (partitions,)
    if not isinstance(partitions, Iterable):
        raise ConfigError(f"partitions is {partitions!r:.60}: give names of topics, or TopicPartition(topic, index).")
    chosen: list[TopicPartition] = []
    for one in partitions:
        if isinstance(one, str):
            check_topic_name(one)
            chosen += [TopicPartition(one, info.partition) for info in await session.partitions(one)]
        else:
            chosen.append(one)
    return checked_partitions(chosen)


# --- the group and its new offsets


async def _check_unused(session: Session, group_id: str, deadline: float) -> None:
    group = (await describe_groups(session, [group_id], deadline))[group_id]
    if not group.is_empty:
        members = counted(len(group.members), "member")
        raise _in_use(f"Nothing was committed: group {group_id!r} is {group.state}, with {members}.")


def _in_use(text: str) -> BrokerError:
    return BrokerError(text, code=ErrorCode.NON_EMPTY_GROUP, hint=_IN_USE)


async def _resolved(
    session: Session, group_id: str, goal: _Goal, before: Mapping[TopicPartition, OffsetAndMetadata | None]
) -> dict[TopicPartition, int]:
    """The new offset of each partition; raises an error for one that is outside of the log."""
    if goal.timestamp is not None:
        return await offsets_at(session, before, goal.timestamp, _ISOLATION)
    after = dict(goal.offsets or _shifted(group_id, before, goal.shift_by or 0))
    starts = await look_up(session, dict.fromkeys(after, EARLIEST), _ISOLATION)
    ends = await look_up(session, dict.fromkeys(after, LATEST), _ISOLATION)
    outside = [
        f"{offset} of {tp.topic}-{tp.partition} is not in its log, which begins at {starts[tp]} and ends at {ends[tp]}"
        for tp, offset in sorted(after.items())
        if not starts[tp] <= offset <= ends[tp]
    ]
    if outside:
        others = f" Nor are those of {counted(len(outside) - 1, 'other partition')}." if len(outside) > 1 else ""
        raise BrokerError(f"Nothing was committed: offset {outside[0]}.{others}", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    return after


def _shifted(
    group_id: str, before: Mapping[TopicPartition, OffsetAndMetadata | None], shift_by: int
) -> dict[TopicPartition, int]:
    after: dict[TopicPartition, int] = {}
    for tp, was in before.items():
        if was is None:
            raise UsageError(
                f"Group {group_id!r} has committed nothing for {tp.topic}-{tp.partition}: no offset is there to shift.",
                hint="Without partitions= all offsets are shifted that it has committed.",
            )
        after[tp] = was.offset + shift_by
    return after


async def _commit(coordinator: Coordinator, after: Mapping[TopicPartition, int], deadline: float) -> None:
    # Without metadata: what it says about the offset before would be wrong for the new one.
    offsets = {tp: OffsetAndMetadata(offset) for tp, offset in after.items()}
    try:
        await commit_offsets(coordinator, GroupMetadata(coordinator.key), offsets, deadline)
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_MEMBER_ID or error.may_be_stored:
            raise
        raise _in_use(f"Nothing was committed: group {coordinator.key!r} has got a member meanwhile.") from error
