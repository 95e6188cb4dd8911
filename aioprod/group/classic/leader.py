"""What the leader of a classic group does: divide the partitions among all members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import UsageError
from aioprod.group.assignors import Assignor, Subscription
from aioprod.group.assignors.model import Assignment
from aioprod.types import TopicPartition

__all__ = ["divided", "is_cooperative", "user_data_of"]


def is_cooperative(assignor: Assignor) -> bool:
    """Whether members keep their partitions while they join anew (KIP-429)."""
    return bool(getattr(assignor, "cooperative", False))


def user_data_of(assignor: Assignor, previous: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
    """What the assignor has to tell the leader's."""
    tell = getattr(assignor, "user_data", None)
    data = None if tell is None else tell(previous, generation)
    return None if data is None else bytes(data)


def divided(
    assignor: Assignor, members: Mapping[str, Subscription], topics: Mapping[str, Sequence[PartitionInfo]]
) -> Assignment:
    """Who gets what; nobody gets what another one still holds.

    Members whose last assignor was cooperative hold partitions while they join, and a newcomer without that assignor
    may have the group choose an eager one, which does not look at that. What moves is left out then: its owner finds
    it missing, gives it up and joins anew. Raises UsageError for an assignor that invents members.
    """
    assignment = assignor.assign(topics, members)
    strangers = assignment.keys() - members.keys()
    if strangers:
        raise UsageError(f"Assignor {assignor.name!r} gives partitions to {min(strangers)!r}, which is no member.")
    if is_cooperative(assignor):
        return assignment
    held = _held(members)
    return {
        member: [tp for tp in partitions if held.get(tp, member) == member] for member, partitions in assignment.items()
    }


def _held(members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """Who holds what, as far as that is not out of date."""
    newest = max((one.generation for one in members.values()), default=-1)
    return {tp: member for member, one in members.items() if one.generation == newest for tp in one.owned}
