"""The leader's part of the classic protocol: run the assignor over the subscriptions of all members.

Between JoinGroup and SyncGroup a `Leader` decodes the subscriptions, has their topics described, and makes and encodes
the assignment. For large groups decoding and assigning are `Compute` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from aioprod._short_reprs import printable, shown_error
from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError, ProtocolError, UsageError
from aioprod.group.assignors import Assignor, Subscription
from aioprod.group.assignors.model import Assignment
from aioprod.group.member_log import MemberLog
from aioprod.group.membership import Compute, DescribeTopics
from aioprod.group.subscription_codec import decode_subscription, encode_assignment
from aioprod.messages import JoinGroupResponse
from aioprod.messages.join_group import JoinGroupResponseMember
from aioprod.types import TopicPartition

__all__ = ["Leader", "encoded_assignment", "group_assignment", "is_cooperative", "user_data_of"]

_LARGE: Final = 500
"""From so many members and partitions together on a thread does the work, as it takes some milliseconds."""


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
        raise UsageError(f"Assignor {assignor.name!r} assigned partitions to {min(unknown)!r}, which is not a member.")
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

    Raises UsageError for an assignor that fails or invents members, and an AioprodError of the assignor as it is.
    """
    try:
        assignment = group_assignment(assignor, members, topics)
        return {member: encode_assignment(partitions) for member, partitions in assignment.items()}
    except AioprodError:
        raise
    except Exception as error:
        raise UsageError(f"Assignor {assignor.name!r} failed: {shown_error(error)}.") from error


def _owners(members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """The owner of each partition, by the subscriptions of the newest generation."""
    newest = max((one.generation for one in members.values()), default=-1)
    return {tp: member for member, one in members.items() if one.generation == newest for tp in one.owned}


class Leader:
    """The leader of one generation, whose JoinGroup response has the subscriptions of the group.

    Any client may join: a member whose subscription can't be decoded is assigned nothing.
    """

    def __init__(self, log: MemberLog, assignor: Assignor, response: JoinGroupResponse) -> None:
        self.assignment: Mapping[str, bytes] = {}
        """The encoded partitions of each member, once it `is_done`."""
        self.counts: Mapping[str, int] = {}
        """How many partitions each topic had."""
        self.error: AioprodError | None = None
        """Why there is no assignment: the assignor has failed."""
        self.is_done = False
        self._log = log
        self._assignor = assignor
        self._skips_assignment = response.skip_assignment
        self._members: Mapping[str, Subscription] = {}
        self._computation: Compute | None = None
        self._compute(partial(self._subscriptions, response.members), len(response.members))

    def step(self) -> Compute | DescribeTopics:
        """The step to do now, until there is an assignment or an error."""
        if self._computation is not None:
            return self._computation
        return DescribeTopics(frozenset(topic for one in self._members.values() for topic in one.topics))

    def _compute(self, work: Callable[[], Callable[[], object]], size: int) -> None:
        """Call `work`, which may run in a thread, and then the function that it returns."""
        if size < _LARGE:
            work()()
        else:
            self._computation = Compute(work)

    def _subscriptions(self, rows: Sequence[JoinGroupResponseMember]) -> Callable[[], object]:
        members: dict[str, Subscription] = {}
        left_out: list[str] = []
        for one in rows:
            try:
                members[one.member_id] = decode_subscription(one.metadata, one.group_instance_id)
            except ProtocolError as error:
                left_out.append(f"{printable(one.member_id)!r}: {error.message}")
        if left_out:
            more = f" Nor to {len(left_out) - 1} more." if len(left_out) > 1 else ""
            self._log.warning("assigns nothing to member %s%s", left_out[0], more)
        return partial(self._subscribed, members)

    def _subscribed(self, members: Mapping[str, Subscription]) -> None:
        self._members = members
        self._computation = None

    def topics_described(self, topics: Mapping[str, Sequence[PartitionInfo]]) -> None:
        """Assign these partitions."""
        self._compute(partial(self._assigned, topics), len(self._members) + sum(map(len, topics.values())))

    def _assigned(self, topics: Mapping[str, Sequence[PartitionInfo]]) -> Callable[[], object]:
        members = self._members
        try:
            assignment = {} if self._skips_assignment else encoded_assignment(self._assignor, members, topics)
        except AioprodError as error:
            return partial(self._fail, error)
        subscribed = {topic for one in members.values() for topic in one.topics}
        return partial(self._finish, assignment, {topic: len(topics.get(topic, ())) for topic in subscribed})

    def _finish(self, assignment: Mapping[str, bytes], counts: Mapping[str, int]) -> None:
        self.assignment = assignment
        self.counts = counts
        self._members = {}
        self.is_done = True

    def _fail(self, error: AioprodError) -> None:
        self.error = error
