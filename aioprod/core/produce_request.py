"""The Produce request around sealed batches: one small head per topic, one buffer per batch, nothing copied.

The bytes are those that `aioprod.messages.ProduceRequest` encodes to; this form exists because the batches must not be
copied and because each of them carries its own partition index and length (see `RecordBatchBuilder.wire`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from uuid import UUID

from aioprod.core.batch import Batch

if TYPE_CHECKING:
    from aioprod.core.partition import Topic

__all__ = ["FIRST_FLEXIBLE", "FIRST_THAT_JOINS", "FIRST_WITH_TOPIC_IDS", "encode_produce", "topic_key"]

FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13
FIRST_THAT_JOINS = 12
ACKS_AND_TIMEOUT = struct.Struct(">hi")
ONE_BYTE = tuple(bytes((value,)) for value in range(256))


def encode_produce(
    version: int, acks: int, timeout_ms: int, batches: list[Batch], transactional_id: bytes | None = None
) -> tuple[list[bytes | memoryview], int]:
    """The body of a Produce request in parts, and its size in bytes; the batches are sealed.

    Batches of one topic are put together. `timeout_ms` is how long the broker may wait for the replicas;
    `transactional_id` is in utf-8, None without transactions.
    """
    flexible = version >= FIRST_FLEXIBLE
    groups = _by_topic(batches)
    head = bytearray()
    _put_transactional_id(head, transactional_id, flexible)
    head += ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    _put_count(head, len(groups), flexible)
    parts: list[bytes | memoryview] = []
    size = 0
    for group in groups:
        _put_topic(head, version, group[0], flexible)
        _put_count(head, len(group), flexible)
        parts.append(bytes(head))
        size += len(head)
        for batch in group:
            part = batch.builder.wire(batch.partition.index, flexible)
            parts.append(part)
            size += len(part)
        head = bytearray(b"\x00" if flexible else b"")
    if flexible:
        head += b"\x00"
        parts.append(bytes(head))
        size += len(head)
    return parts, size


def _by_topic(batches: list[Batch]) -> list[list[Batch]]:
    """The batches of each topic, topics in the order in which they come up."""
    topic = batches[0].partition.topic
    for batch in batches:
        if batch.partition.topic is not topic:
            break
    else:
        return [batches]
    groups: dict[Topic, list[Batch]] = {}
    for batch in batches:
        groups.setdefault(batch.partition.topic, []).append(batch)
    return list(groups.values())


def topic_key(version: int, batch: Batch) -> bytes:
    """What requests and answers of that version call the topic of a batch: its id, or its name in utf-8."""
    if version < FIRST_WITH_TOPIC_IDS:
        return batch.partition.topic.name.encode()
    topic_id = batch.topic_id
    assert isinstance(topic_id, UUID)
    return topic_id.bytes


def _put_topic(head: bytearray, version: int, batch: Batch, flexible: bool) -> None:
    key = topic_key(version, batch)
    if not flexible:
        head += len(key).to_bytes(2, "big")
    elif version < FIRST_WITH_TOPIC_IDS:
        _put_count(head, len(key), flexible)
    head += key


def _put_transactional_id(head: bytearray, transactional_id: bytes | None, flexible: bool) -> None:
    if transactional_id is None:
        head += b"\x00" if flexible else b"\xff\xff"
        return
    if flexible:
        _put_count(head, len(transactional_id), flexible)
    else:
        head += len(transactional_id).to_bytes(2, "big")
    head += transactional_id


def _put_count(head: bytearray, count: int, flexible: bool) -> None:
    if not flexible:
        head += count.to_bytes(4, "big")
        return
    count += 1
    # Not bytearray.append, which Cython 3.3 leaves without what it needs where modules share their helpers.
    while count >= 0x80:
        head += ONE_BYTE[(count & 0x7F) | 0x80]
        count >>= 7
    head += ONE_BYTE[count]
