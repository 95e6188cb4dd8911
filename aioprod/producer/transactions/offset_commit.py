"""The request that commits a group's offsets with a transaction (TxnOffsetCommit), by topic id or by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias
from uuid import UUID

from aioprod._error_codes import ErrorCode
from aioprod.errors import UnsupportedVersionError
from aioprod.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import ZERO_UUID

__all__ = ["FIRST_THAT_ADDS", "OffsetCommit", "Offsets"]

FIRST_THAT_ADDS: Final = 5
"""The version that adds the group to the transaction (KIP-890)."""
_FIRST_WITH_MEMBER: Final = 3
"""The version with the member's generation, by which brokers fence a replaced member (KIP-447)."""
_FIRST_WITH_IDS: Final = 6
"""The version with topic ids in place of names (KIP-1319)."""

Offsets: TypeAlias = Mapping[TopicPartition, int | tuple[int, str]]
"""The next offset to read of each partition, and what else its group is to keep of it, up to 4 KB."""


class OffsetCommit:
    """The offsets of a group that are committed with a transaction.

    Topics are named by their ids where the group's member says these, so that a topic which was created later under the
    same name gets none of the offsets; by their names otherwise, and for brokers before 4.4.
    """

    def __init__(self, offsets: Offsets, group: GroupMetadata) -> None:
        self._offsets = offsets
        self._group = group
        self._names = {group.topic_ids[tp]: tp.topic for tp in offsets if tp in group.topic_ids}
        self._has_ids = all(tp in group.topic_ids for tp in offsets)

    def message(
        self, transactional_id: str, producer_id: int, epoch: int, *, adds: bool
    ) -> ByVersion[TxnOffsetCommitResponse]:
        """The request; `adds` the group to the transaction as well.

        Making it raises UnsupportedVersionError for a member of a group whose coordinator is older than 2.5: it could
        not fence a replaced member.
        """

        def build(version: int) -> TxnOffsetCommitRequest:
            self._check(version)
            return TxnOffsetCommitRequest(
                transactional_id=transactional_id,
                group_id=self._group.group_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                generation_id_or_member_epoch=self._group.generation_id,
                member_id=self._group.member_id,
                group_instance_id=self._group.group_instance_id,
                topics=self._topics(by_id=version >= _FIRST_WITH_IDS),
            )

        at_most = FIRST_THAT_ADDS - 1 if not adds else None if self._has_ids else _FIRST_WITH_IDS - 1
        return ByVersion(TxnOffsetCommitRequest, build, at_most)

    def _check(self, version: int) -> None:
        group = self._group
        if version < _FIRST_WITH_MEMBER and group != GroupMetadata(group.group_id):
            raise UnsupportedVersionError(
                f"The offsets of group {group.group_id!r} were not committed: its coordinator is older than 2.5 "
                "and does not check that the member still owns the partitions (KIP-447).",
                hint="Results could be committed twice. Use brokers from 2.5 on; or give the group's name alone, "
                "if each partition is always read under the same transactional.id, so that its next owner "
                "fences this one.",
            )

    def _topics(self, *, by_id: bool) -> tuple[TxnOffsetCommitRequestTopic, ...]:
        topics: dict[tuple[str, UUID], list[TxnOffsetCommitRequestPartition]] = {}
        for tp, given in sorted(self._offsets.items()):
            offset, metadata = (given, "") if isinstance(given, int) else given
            row = TxnOffsetCommitRequestPartition(
                partition_index=tp[1], committed_offset=offset, committed_metadata=metadata
            )
            topic_id = self._group.topic_ids[tp] if by_id else ZERO_UUID
            topics.setdefault((tp[0], topic_id), []).append(row)
        return tuple(
            TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=tuple(rows))
            for (name, topic_id), rows in topics.items()
        )

    def codes(self, answer: TxnOffsetCommitResponse) -> list[tuple[str, int]]:
        """Topic and code of each partition; the response to a request by id has no names."""
        return [
            (topic.name or self._names.get(topic.topic_id, ""), row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        ]

    def why(self, answer: TxnOffsetCommitResponse) -> str:
        """The end of the sentence about the codes of an answer, where there is more to say."""
        gone = {topic for topic, code in self.codes(answer) if code == ErrorCode.UNKNOWN_TOPIC_ID}
        return f": what was read of {', '.join(sorted(gone))} is deleted" if gone else ""
