"""The offsets of consumer groups, those of running transactions too (Kafka's `OffsetMetadataManager`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aioprod.errors import ErrorCode
from aioprod.types import TopicPartition

__all__ = ["METADATA_MAX", "Committed", "FakeGroup", "Groups"]

METADATA_MAX: Final = 4096
"""The longest text that may be committed with an offset, in characters (`offset.metadata.max.bytes`)."""


class Committed(NamedTuple):
    """What a group has committed for one partition: the next offset to read, and a text of its own."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


@dataclass
class FakeGroup:
    """One group. Its members and their generation are what a test says they are; `pending` is by producer id."""

    generation: int = -1
    members: set[str] = field(default_factory=set)
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    pending: dict[int, dict[TopicPartition, Committed]] = field(default_factory=dict)

    def refusal(self, member_id: str, generation: int, *, transactional: bool) -> ErrorCode:
        """Why this member may not commit, NONE if it may. Who names neither member nor generation is a stranger."""
        if generation < 0 and not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID if self.members and not transactional else ErrorCode.NONE
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def is_unstable(self, tp: TopicPartition) -> bool:
        """Whether a running transaction has an offset for the partition."""
        return any(tp in offsets for offsets in self.pending.values())

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """Let the offsets of a producer's transaction count, or drop them."""
        offsets = self.pending.pop(producer_id, {})
        if commits:
            self.offsets.update(offsets)


class Groups(dict[str, FakeGroup]):
    """All groups by name."""

    def refusal(self, group_id: str, member_id: str, generation: int, *, transactional: bool) -> ErrorCode:
        """As `FakeGroup.refusal`; a stranger makes the group."""
        if group_id not in self:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            self[group_id] = FakeGroup()
        return self[group_id].refusal(member_id, generation, transactional=transactional)
