"""Deleting the first records of partitions, by their leaders (DeleteRecords)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aioprod.admin.topics import check_partitions_exist
from aioprod.calls.leaders import LeaderRequests, PendingPartition
from aioprod.calls.session import Session, check_topic_name
from aioprod.errors import ErrorCode, UsageError
from aioprod.messages import DeleteRecordsRequest, DeleteRecordsResponse
from aioprod.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from aioprod.types import TopicPartition

__all__ = ["delete_records"]

_REPLICATED: Final = -1
"""In place of an offset: all that is replicated."""


@dataclass(slots=True, eq=False)
class _Deletion(PendingPartition):
    """The deletion of the first records of a partition."""

    before: int = _REPLICATED
    """The offset before which all records are deleted."""
    low_watermark: int | None = None
    """The first offset of the partition after that."""

    @property
    def is_done(self) -> bool:
        return self.low_watermark is not None


class _Deletions(LeaderRequests[_Deletion, DeleteRecordsResponse]):
    """Deletes records, with one request for each leader."""

    def __init__(self, session: Session, deletions: Collection[_Deletion]) -> None:
        super().__init__(session, deletions, self._request, purpose="emptied", operation="DELETE")

    def _request(self, node_id: int, deletions: Sequence[_Deletion]) -> DeleteRecordsRequest:
        topics: dict[str, list[DeleteRecordsPartition]] = {}
        for one in deletions:
            row = DeleteRecordsPartition(partition_index=one.tp.partition, offset=one.before)
            topics.setdefault(one.tp.topic, []).append(row)
        return DeleteRecordsRequest(
            topics=tuple(DeleteRecordsTopic(name=name, partitions=tuple(rows)) for name, rows in topics.items()),
            timeout_ms=self._session.config.request_timeout_ms,
        )

    async def run(self) -> None:
        """Delete all; raises the error of the first partition whose records can't be deleted."""
        while (answered := await self.next()) is not None:
            rows = {
                TopicPartition(topic.name, row.partition_index): row
                for topic in answered.response.topics
                for row in topic.partitions
            }
            for one in answered.partitions:
                row = rows.get(one.tp)
                if row is None:
                    self.missing_in_response(one)
                elif row.error_code != ErrorCode.NONE:
                    self.rejected(one, ErrorCode.of(row.error_code))
                else:
                    one.low_watermark = row.low_watermark
                    self.succeeded(one)


async def delete_records(session: Session, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The first offset of each partition after its records before that offset were deleted; -1: all replicated ones."""
    for tp, offset in before.items():
        check_topic_name(tp.topic)
        if isinstance(offset, bool) or not isinstance(offset, int) or not _REPLICATED <= offset < 2**63:
            raise UsageError(
                f"{offset!r} is not an offset of {tp.topic}-{tp.partition} to delete before: give one from 0 on, or -1 "
                "for all records that are replicated."
            )
    await check_partitions_exist(session, before)
    deletions = [_Deletion(tp, before=offset) for tp, offset in before.items()]
    async with _Deletions(session, deletions) as pending:
        await pending.run()
    return {one.tp: one.low_watermark for one in deletions if one.low_watermark is not None}
