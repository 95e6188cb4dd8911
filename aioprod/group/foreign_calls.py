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
    "incremental_assign": _NO_GROUP,
    "incremental_unassign": _NO_GROUP,
    "position": "member.positions has the next offset of each partition.",
    "highwater": "`await member.end_offsets(tp)` has it from the leader; member.lag() is counted from the last fetch.",
    "last_stable_offset": "`await member.end_offsets(tp)` is that with read_committed.",
    "last_poll_timestamp": "member.metrics() and member.explain() say whether it reads.",
    "current_lag": "member.lag() has the lag of each partition.",
    "store_offsets": "with enable_auto_commit=True the records that were polled past are committed in the background; "
    "`await member.commit(record)` commits at once.",
    "commit_async": "call `asyncio.create_task(member.commit())`, or set enable_auto_commit=True.",
    "consumer_group_metadata": "it is the attribute member.group_metadata.",
    "memberid": "it is member.group_metadata.member_id.",
    "seek_to_committed": "call `await member.rewind()`.",
    "wakeup": "`await member.close()` in another task ends the loop; a wait for a record can be cancelled.",
    "enforce_rebalance": "a member rejoins by itself; `member.subscribe(topics)` with other topics makes it do so.",
    "get_watermark_offsets": "call `await member.beginning_offsets(tp)` and `await member.end_offsets(tp)`.",
    "list_topics": "call `await aioprod.Admin(...).topics()`.",
    "topics": "call `await aioprod.Admin(...).topics()`.",
    "partitions_for_topic": "call `await aioprod.Admin(...).partitions(topic)`.",
    "cluster_id": "call `await aioprod.Admin(...).describe_cluster()`.",
    "bootstrap_connected": "repr(member) and member.explain() say its state.",
    "set_sasl_credentials": "call `await member.reload_credentials()`, which reads them again.",
}
"""Name -> what to call instead."""

if TYPE_CHECKING:
    ForeignCallHints = ProcessBound
else:
    ForeignCallHints = hinting_at(INSTEAD)
