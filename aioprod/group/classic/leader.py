"""The leader's part of the classic protocol: run the assignor over the subscriptions of all members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError, UsageError
from aioprod.group.assignors import Assignor, Subscription
from aioprod.group.assignors.model import Assignment
from aioprod.group.subscription_codec import encode_assignment
from aioprod.types import TopicPartition

__all__ = ["encoded_assignment", "group_assignment", "is_cooperative", "user_data_of"]


def is_cooperative(assignor: Assignor) -> bool:
    """Whether members keep their partitions while they rejoin (KIP-429)."""
    return bool(getattr(assignor, "cooperative", False))


def user_data_of(assignor: Assignor, previous: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
    """The user data that the assignor adds to this member's subscription."""
    user_data = getattr(assignor, "user_data", None)
    data = None if user_data is None else user_data(previous, generation)
    return None if data is None else bytes(data)


def group_assignment(
    assignor: Assignor, members: Mapping[str, Subscription], topics: Mapping[str, Sequence[PartitionInfo]]
) -> Assignment:
    """The partitions of each member, without those that another member still owns.

    Members whose last assignor was cooperative own partitions while they rejoin, and a new member without that assignor
    may have the group choose an eager one, which ignores ownership. Partitions that would move are left out then: their
    owner finds them missing, revokes them and rejoins. Raises UsageError for an assignor that invents members.
    """
    assignment = assignor.assign(topics, members)
    unknown = assignment.keys() - members.keys()
    if unknown:
        raise UsageError(f"Assignor {assignor.name!r} assigned partitions to {min(unknown)!r}, which is no member.")
    if is_cooperative(assignor):
        return assignment
    owners = _owners(members)
    return {
        member: [tp for tp in partitions if owners.get(tp, member) == member]
        for member, partitions in assignment.items()
    }


def encoded_assignment(
    assignor: Assignor, members: Mapping[str, Subscription], topics: Mapping[str, Sequence[PartitionInfo]]
) -> dict[str, bytes]:
    """The assignment of the group as SyncGroup has it.

    Raises UsageError for an assignor that fails or invents members, and AioprodErrors of the assignor as they are.
    """
    try:
        assignment = group_assignment(assignor, members, topics)
        return {member: encode_assignment(partitions) for member, partitions in assignment.items()}
    except AioprodError:
        raise
    except Exception as error:
        raise UsageError(f"Assignor {assignor.name!r} failed: {error!r}.") from error


def _owners(members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """The owner of each partition, by the subscriptions of the newest generation."""
    newest = max((one.generation for one in members.values()), default=-1)
    return {tp: member for member, one in members.items() if one.generation == newest for tp in one.owned}
