"""The consumer groups of a fake cluster: committed offsets, those of open transactions, and the members.

`FakeGroup` has the offsets (Kafka's `OffsetMetadataManager`); its members are a `ClassicGroup` or a `ConsumerGroup`,
according to the protocol that the first member joins by.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from aioprod.errors import ErrorCode
from aioprod.testing.fake.state.classic_group import ClassicGroup
from aioprod.testing.fake.state.group_host import GroupHost, GroupSettings
from aioprod.testing.fake.state.kip848_group import ConsumerGroup
from aioprod.testing.fake.state.timers import Timers
from aioprod.testing.fake.state.topics import Topics
from aioprod.types import TopicPartition

__all__ = ["Committed", "Committer", "FakeGroup", "Groups"]


class Committed(NamedTuple):
    """What a group has committed for one partition: the next offset to read, and metadata of the member's choice."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class Committer(NamedTuple):
    """The member that commits, by its request; `is_before_kip848`: the version of the request has no member epochs."""

    member_id: str
    instance_id: str | None
    generation: int
    is_transactional: bool
    is_before_kip848: bool = False


@dataclass
class FakeGroup:
    """One group: its offsets, those of open transactions by producer id (`pending`), and its members.

    `membership` has the members once one has joined. Before, a test may set `generation` and `members` instead.
    `coordinator` is the broker that coordinates the group.
    """

    generation: int = -1
    members: set[str] = field(default_factory=set)
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    pending: dict[int, dict[TopicPartition, Committed]] = field(default_factory=dict)
    overtaken: set[tuple[int, TopicPartition]] = field(default_factory=set)
    """Pending offsets, by producer id, after which a plain commit has come: the later one counts."""
    membership: ClassicGroup | ConsumerGroup | None = None
    coordinator: int | None = None

    @property
    def has_members(self) -> bool:
        """Whether it has members."""
        return bool(self.members if self.membership is None else self.membership.members)

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that its members read."""
        return frozenset() if self.membership is None else self.membership.subscribed

    @property
    def hides_topics(self) -> bool:
        """Whether it has members that are no consumers: brokers can't know which topics these read."""
        members = self.membership
        return isinstance(members, ClassicGroup) and self.has_members and members.protocol_type != "consumer"

    def commit_error(self, committer: Committer) -> ErrorCode:
        """The error if this member may not commit, else NONE. A request may come without member and generation."""
        if (
            isinstance(self.membership, ConsumerGroup)
            and committer.is_before_kip848
            and committer.member_id in self.membership.members
        ):
            return ErrorCode.UNSUPPORTED_VERSION
        if self.membership is not None:
            return self.membership.commit_error(
                committer.member_id,
                committer.instance_id,
                committer.generation,
                transactional=committer.is_transactional,
            )
        if committer.generation < 0 and not committer.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID if self.members and not committer.is_transactional else ErrorCode.NONE
        if committer.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if committer.generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """The error if this member may not fetch offsets, else NONE. Requests without member and epoch may."""
        if not isinstance(self.membership, ConsumerGroup) or (not member_id and epoch < 0):
            return ErrorCode.NONE
        return self.membership.fetch_error(member_id or "", epoch)

    def is_unstable(self, tp: TopicPartition) -> bool:
        """Whether an open transaction has an offset for the partition."""
        return any(tp in offsets for offsets in self.pending.values())

    def commit(self, tp: TopicPartition, committed: Committed) -> None:
        """Commit an offset without a transaction."""
        self.offsets[tp] = committed
        self.overtaken.update((producer_id, tp) for producer_id, offsets in self.pending.items() if tp in offsets)

    def commit_in_transaction(self, producer_id: int, tp: TopicPartition, committed: Committed) -> None:
        """Keep an offset until the producer's transaction ends."""
        self.pending[producer_id][tp] = committed
        self.overtaken.discard((producer_id, tp))

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """Commit the offsets of a producer's transaction, but for those that were overtaken, or drop them."""
        for tp, committed in self.pending.pop(producer_id, {}).items():
            if commits and (producer_id, tp) not in self.overtaken:
                self.offsets[tp] = committed
            self.overtaken.discard((producer_id, tp))


class Groups(dict[str, FakeGroup]):
    """All groups by name. `settings` are those of all brokers; `coordinator` returns the broker of a group."""

    def __init__(
        self, timers: Timers, random: Random, topics: Topics, coordinator: Callable[[str], int | None]
    ) -> None:
        super().__init__()
        self.settings = GroupSettings()
        self._timers = timers
        self._random = random
        self._topics = topics
        self._coordinator = coordinator

    def commit_error(self, group_id: str, committer: Committer) -> ErrorCode:
        """As `FakeGroup.commit_error`; a commit without generation creates the group."""
        if group_id not in self:
            if committer.generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            self[group_id] = FakeGroup()
        return self[group_id].commit_error(committer)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The members of a group by the classic protocol, created if missing; None if it has members by KIP-848."""
        group = self._get_or_create(group_id)
        if (group.membership is None or not group.membership.members) and not isinstance(
            group.membership, ClassicGroup
        ):
            group.membership = ClassicGroup(self._host(group_id, group))
        return group.membership if isinstance(group.membership, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The members of a group by KIP-848, created if missing; None if it has members by the other protocol."""
        group = self._get_or_create(group_id)
        if (group.membership is None or not group.membership.members) and not isinstance(
            group.membership, ConsumerGroup
        ):
            group.membership = ConsumerGroup(self._host(group_id, group), self._topics)
        return group.membership if isinstance(group.membership, ConsumerGroup) else None

    def _host(self, group_id: str, group: FakeGroup) -> GroupHost:
        return GroupHost(
            self.settings, self._timers, self._random, lambda: self._coordinator(group_id) == group.coordinator
        )

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a topic that was deleted, as coordinators do: one of the same name begins without."""
        for group in self.values():
            group.offsets = {tp: committed for tp, committed in group.offsets.items() if tp.topic != topic}

    def new_member_id(self) -> str:
        """A new member id."""
        return str(uuid.UUID(int=self._random.getrandbits(128)))

    def _get_or_create(self, group_id: str) -> FakeGroup:
        group = self.setdefault(group_id, FakeGroup())
        self._update_coordinator(group_id, group)
        return group

    def _update_coordinator(self, group_id: str, group: FakeGroup) -> None:
        """Reload the group from what was saved if another broker coordinates it now."""
        coordinator = self._coordinator(group_id)
        if group.coordinator not in (None, coordinator) and group.membership is not None:
            group.membership.reload()
        group.coordinator = coordinator

    def update_coordinators(self) -> None:
        """Reload the groups whose coordinator has changed."""
        for group_id, group in self.items():
            self._update_coordinator(group_id, group)
