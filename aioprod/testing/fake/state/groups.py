"""The offsets of consumer groups, those of running transactions too (Kafka's `OffsetMetadataManager`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from aioprod.errors import ErrorCode
from aioprod.testing.fake.state.classic_group import ClassicGroup
from aioprod.testing.fake.state.group_host import GroupHost, GroupSettings
from aioprod.testing.fake.state.kip848_group import ConsumerGroup
from aioprod.testing.fake.state.timers import Timers
from aioprod.testing.fake.state.topics import Topics
from aioprod.types import TopicPartition

__all__ = ["METADATA_MAX", "Committed", "Committer", "FakeGroup", "Groups"]

METADATA_MAX: Final = 4096
"""The longest text that may be committed with an offset, in characters (`offset.metadata.max.bytes`)."""


class Committed(NamedTuple):
    """What a group has committed for one partition: the next offset to read, and a text of its own."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class Committer(NamedTuple):
    """Who commits, as it says itself; `is_old`: by a request that has no word for epochs of members (KIP-848)."""

    member_id: str
    instance_id: str | None
    generation: int
    is_transactional: bool
    is_old: bool = False


@dataclass
class FakeGroup:
    """One group; `pending` is by producer id.

    Who is in it is in `members` and `generation`, for a test to say, until somebody joins: then `joined` knows.
    `home` is the broker that coordinates it.
    """

    generation: int = -1
    members: set[str] = field(default_factory=set)
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    pending: dict[int, dict[TopicPartition, Committed]] = field(default_factory=dict)
    joined: ClassicGroup | ConsumerGroup | None = None
    home: int | None = None

    def refusal(self, who: Committer) -> ErrorCode:
        """Why this member may not commit, NONE if it may. Who names neither member nor generation is a stranger."""
        if isinstance(self.joined, ConsumerGroup) and who.is_old and who.member_id in self.joined.members:
            return ErrorCode.UNSUPPORTED_VERSION
        if self.joined is not None:
            return self.joined.refusal_to_commit(
                who.member_id, who.instance_id, who.generation, transactional=who.is_transactional
            )
        if who.generation < 0 and not who.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID if self.members and not who.is_transactional else ErrorCode.NONE
        if who.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if who.generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def refusal_to_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Why this member may not see offsets, NONE if it may; who names neither member nor epoch may."""
        if not isinstance(self.joined, ConsumerGroup) or (not member_id and epoch < 0):
            return ErrorCode.NONE
        return self.joined.refusal_to_fetch(member_id or "", epoch)

    def is_unstable(self, tp: TopicPartition) -> bool:
        """Whether a running transaction has an offset for the partition."""
        return any(tp in offsets for offsets in self.pending.values())

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """Let the offsets of a producer's transaction count, or drop them."""
        offsets = self.pending.pop(producer_id, {})
        if commits:
            self.offsets.update(offsets)


class Groups(dict[str, FakeGroup]):
    """All groups by name. `settings` are those of all brokers; `coordinator` says who looks after a group."""

    def __init__(
        self, timers: Timers, random: Random, topics: Topics, coordinator: Callable[[str], int | None]
    ) -> None:
        super().__init__()
        self.settings = GroupSettings()
        self._timers = timers
        self._random = random
        self._topics = topics
        self._coordinator = coordinator

    def refusal(self, group_id: str, who: Committer) -> ErrorCode:
        """As `FakeGroup.refusal`; a stranger makes the group."""
        if group_id not in self:
            if who.generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            self[group_id] = FakeGroup()
        return self[group_id].refusal(who)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group as one of the classic protocol, which may be new; None if it is used with the other one."""
        group = self._settled(group_id)
        if (group.joined is None or not group.joined.members) and not isinstance(group.joined, ClassicGroup):
            group.joined = ClassicGroup(self._host(group_id, group))
        return group.joined if isinstance(group.joined, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group as one of KIP-848, which may be new; None if it is used with the other protocol."""
        group = self._settled(group_id)
        if (group.joined is None or not group.joined.members) and not isinstance(group.joined, ConsumerGroup):
            group.joined = ConsumerGroup(self._host(group_id, group), self._topics)
        return group.joined if isinstance(group.joined, ConsumerGroup) else None

    def _host(self, group_id: str, group: FakeGroup) -> GroupHost:
        return GroupHost(self.settings, self._timers, self._random, lambda: self._coordinator(group_id) == group.home)

    def new_name(self) -> str:
        """A name for a member, which nobody had before."""
        return str(uuid.UUID(int=self._random.getrandbits(128)))

    def _settled(self, group_id: str) -> FakeGroup:
        group = self.setdefault(group_id, FakeGroup())
        self._settle(group_id, group)
        return group

    def _settle(self, group_id: str, group: FakeGroup) -> None:
        """Let the broker that coordinates the group now know it as it was saved."""
        home = self._coordinator(group_id)
        if group.home not in (None, home) and group.joined is not None:
            group.joined.unload()
        group.home = home

    def move(self) -> None:
        """Let those brokers know who may have another group to look after, or one less."""
        for group_id, group in self.items():
            self._settle(group_id, group)
