"""Calls of other clients' consumers that `Member` lacks, and what to call instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioprod._process_bound import ProcessBound, hinting_at

__all__ = ["INSTEAD", "ForeignCallHints"]

_NEXT: Final = "records come one by one: `async for record in member`, or `await anext(member)`."
_LISTS: Final = "call `async for batch in member.batches(max_records, max_wait_ms)`."
_CLOSE: Final = "call `await member.close()`."
_NO_GROUP: Final = (
    "a member reads the partitions that its group assigns; aioprod.reader.Reader reads partitions without a group."
)

INSTEAD: Final = {
    "poll": _NEXT,
    "getone": _NEXT,
    "getmany": _LISTS,
    "consume": _LISTS,
    "stop": _CLOSE,
    "aclose": _CLOSE,
    "unsubscribe": "call `member.subscribe(topics)` with other topics, or `await member.close()`.",
    "subscription": "its topics are those of the constructor, or of the last subscribe().",
    "assign": _NO_GROUP,
    "unassign": _NO_GROUP,
    "position": "member.positions has the next offset of each partition.",
    "store_offsets": "call `await member.commit(offsets)`: there is no commit in the background.",
    "consumer_group_metadata": "it is the attribute member.group_metadata.",
    "seek_to_committed": "call `await member.rewind()`.",
    "get_watermark_offsets": "call `await member.beginning_offsets(tp)` and `await member.end_offsets(tp)`.",
    "list_topics": "call `await aioprod.Admin(...).topics()`.",
    "topics": "call `await aioprod.Admin(...).topics()`.",
}
"""Name -> what to call instead."""

if TYPE_CHECKING:
    ForeignCallHints = ProcessBound
else:
    ForeignCallHints = hinting_at(INSTEAD)
