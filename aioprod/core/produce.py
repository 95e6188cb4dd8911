"""The Produce request around sealed batches: one small head per topic, one buffer per batch, nothing copied.

The bytes are those that `aioprod.messages.ProduceRequest` encodes to; this form exists because the batches must not be
copied and because each of them carries its own partition index and length (see `RecordBatchBuilder.wire`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from uuid import UUID

from aioprod.core.batch import Batch
from aioprod.wire.buffer import Writer

if TYPE_CHECKING:
    from aioprod.core.partition import Topic

__all__ = ["FIRST_FLEXIBLE", "FIRST_WITH_TOPIC_IDS", "encode_produce"]

FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13
ACKS_AND_TIMEOUT = struct.Struct(">hi")


def encode_produce(
    version: int, acks: int, timeout_ms: int, batches: list[Batch]
) -> tuple[list[bytes | memoryview], int]:
    """The body of a Produce request in parts, and its size in bytes; the batches are sealed.

    Batches of one topic are put together. `timeout_ms` is how long the broker may wait for the replicas.
    """
    by_topic: dict[Topic, list[Batch]] = {}
    for batch in batches:
        by_topic.setdefault(batch.partition.topic, []).append(batch)
    flexible = version >= FIRST_FLEXIBLE
    head = Writer()
    if flexible:
        head.compact_string(None)
    else:
        head.string(None)
    head.pack(ACKS_AND_TIMEOUT, acks, timeout_ms)
    _count(head, len(by_topic), flexible)
    parts: list[bytes | memoryview] = []
    for topic, of_topic in by_topic.items():
        if version >= FIRST_WITH_TOPIC_IDS:
            topic_id = of_topic[0].topic_id
            assert isinstance(topic_id, UUID)
            head.uuid(topic_id)
        elif flexible:
            head.compact_string(topic.name)
        else:
            head.string(topic.name)
        _count(head, len(of_topic), flexible)
        parts.append(head.getvalue())
        parts.extend(batch.builder.wire(batch.partition.index, flexible) for batch in of_topic)
        head = Writer()
        if flexible:
            head.uvarint(0)
    if flexible:
        head.uvarint(0)
        parts.append(head.getvalue())
    return parts, sum(len(part) for part in parts)


def _count(writer: Writer, count: int, flexible: bool) -> None:
    if flexible:
        writer.compact_count(count)
    else:
        writer.count(count)
