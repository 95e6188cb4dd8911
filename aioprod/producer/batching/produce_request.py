"""The Produce request around sealed batches: one small head per topic, one buffer per batch, nothing copied.

The bytes are those that `aioprod.messages.ProduceRequest` encodes to; this form exists because the batches must not be
copied and because each of them carries its own partition index and length (see `RecordBatchBuilder.wire`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from aioprod.producer.batching.batch import Batch

if TYPE_CHECKING:
    from aioprod.producer.batching.partition import Topic

__all__ = ["FIRST_FLEXIBLE", "FIRST_THAT_JOINS", "FIRST_WITH_TOPIC_IDS", "ProduceEncoder", "topic_key"]

FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13
FIRST_THAT_JOINS = 12
ACKS_AND_TIMEOUT = struct.Struct(">hi")
NO_TAGS_TWICE = b"\x00\x00"
"""The empty tag sections of the only topic and of the request."""
HEADS_MAX = 1000
ONE_BYTE = tuple(bytes((value,)) for value in range(256))


class ProduceEncoder:
    """Encodes the Produce requests of one producer.

    `timeout_ms` is how long the broker may wait for the replicas; `transactional_id` is in utf-8, None without
    transactions. The head of a request with a single batch is kept: on a producer that sends now and then, building it
    takes longer than the batch.
    """

    __slots__ = ("_acks", "_heads", "_heads_version", "_timeout_ms", "_transactional_id")

    def __init__(self, acks: int, timeout_ms: int, transactional_id: bytes | None = None) -> None:
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._transactional_id = transactional_id
        self._heads: dict[bytes, bytes] = {}
        self._heads_version = -1

    def encode(self, version: int, batches: list[Batch]) -> tuple[list[bytes | memoryview], int]:
        """The body of a Produce request in parts, and its size in bytes; the batches are sealed.

        Batches of one topic are put together.
        """
        flexible = version >= FIRST_FLEXIBLE
        if len(batches) == 1:
            batch = batches[0]
            head = self._head_of_one(version, batch, flexible)
            part = batch.builder.wire(batch.partition.index, flexible)
            if flexible:
                return [head, part, NO_TAGS_TWICE], len(head) + len(part) + 2
            return [head, part], len(head) + len(part)
        return self._encode(version, batches, flexible)

    def _head_of_one(self, version: int, batch: Batch, flexible: bool) -> bytes:
        if version != self._heads_version or len(self._heads) >= HEADS_MAX:
            self._heads.clear()
            self._heads_version = version
        key = topic_key(version, batch)
        head = self._heads.get(key)
        if head is None:
            made = self._begin(1, flexible)
            _put_topic(made, version, key, flexible)
            _put_count(made, 1, flexible)
            head = self._heads[key] = bytes(made)
        return head

    def _begin(self, topics: int, flexible: bool) -> bytearray:
        head = bytearray()
        _put_transactional_id(head, self._transactional_id, flexible)
        head += ACKS_AND_TIMEOUT.pack(self._acks, self._timeout_ms)
        _put_count(head, topics, flexible)
        return head

    def _encode(self, version: int, batches: list[Batch], flexible: bool) -> tuple[list[bytes | memoryview], int]:
        groups = _by_topic(batches)
        head = self._begin(len(groups), flexible)
        parts: list[bytes | memoryview] = []
        size = 0
        for group in groups:
            _put_topic(head, version, topic_key(version, group[0]), flexible)
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
        return batch.partition.topic.name_bytes
    assert batch.topic_id is not None
    return batch.topic_id


def _put_topic(head: bytearray, version: int, key: bytes, flexible: bool) -> None:
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
