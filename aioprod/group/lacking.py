"""Calls of aiokafka's, confluent-kafka's and kafka-python's consumers that `Member` lacks, and what to call instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioprod._live import Live, lacking

__all__ = ["INSTEAD", "MemberLacks"]

_NEXT: Final = "records come one by one: `async for record in member`, or `await anext(member)`."
_CLOSE: Final = "call `await member.close()`."
_NO_GROUP: Final = "a member reads what its group gives it; aioprod.reader.Reader reads partitions without a group."
_OFFSETS: Final = "call `await aioprod.Admin(...).offsets(topic, at)`, with at='earliest', 'latest' or a time."
_SEEK: Final = "call `member.seek(tp, offset)`, with an offset of `await aioprod.Admin(...).offsets(topic, at)`."

INSTEAD: Final = {
    "poll": _NEXT,
    "getone": _NEXT,
    "getmany": _NEXT,
    "consume": _NEXT,
    "stop": _CLOSE,
    "aclose": _CLOSE,
    "unsubscribe": "call `member.subscribe(topics)` with other topics, or `await member.close()`.",
    "subscription": "it reads the topics that it was given, or the last subscribe().",
    "assign": _NO_GROUP,
    "unassign": _NO_GROUP,
    "position": "member.positions has the next offset of each partition.",
    "committed": "member.rewind() goes back to where the group has got to; member.positions has where this member is.",
    "store_offsets": "call `await member.commit(offsets)`: nothing is committed by itself.",
    "consumer_group_metadata": "it is the attribute member.group_metadata.",
    "seek_to_beginning": _SEEK,
    "seek_to_end": _SEEK,
    "seek_to_committed": "call `await member.rewind()`.",
    "beginning_offsets": _OFFSETS,
    "end_offsets": _OFFSETS,
    "get_watermark_offsets": _OFFSETS,
    "offsets_for_times": _OFFSETS,
    "pause": "there is no such thing: a partition of which no record is taken for a while stays where it is.",
    "resume": "there is no such thing, as partitions are not paused.",
    "list_topics": "call `await aioprod.Admin(...).topics()`.",
    "topics": "call `await aioprod.Admin(...).topics()`.",
}
"""Name -> what to do in its place."""

if TYPE_CHECKING:
    MemberLacks = Live
else:
    MemberLacks = lacking(INSTEAD)
