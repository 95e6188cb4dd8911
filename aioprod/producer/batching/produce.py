"""The Produce request around sealed batches, and its plain answer: made and read by hand, as every batch pays for it.

The request is one small head per topic and one buffer per batch, nothing copied. The bytes are those that
`aioprod.messages.ProduceRequest` encodes to; this form exists because the batches must not be copied and because each
of them carries its own partition index and length (see `RecordBatchBuilder.wire`).

The plain answer, which nearly every one is, says that each batch is stored, and nothing else. What
`aioprod.messages.ProduceResponse` could say besides (errors, leader hints) is the codec's business: `read_plain` finds
such an answer not plain and leaves it alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from aioprod.producer.batching.batch import Batch
from aioprod.wire import memory
from aioprod.wire.buffer import Buffer

if TYPE_CHECKING:
    from aioprod.producer.batching.partition import Topic

__all__ = [
    "FIRST_FLEXIBLE",
    "FIRST_THAT_JOINS",
    "FIRST_WITH_TOPIC_IDS",
    "PlainAnswer",
    "ProduceEncoder",
    "read_plain",
]

_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_RECORD_ERRORS: Final = 8
FIRST_FLEXIBLE: Final = 9
FIRST_THAT_JOINS: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_NO_TAGS_TWICE: Final = b"\x00\x00"
"""The empty tag sections of the only topic and of the request."""
HEADS_MAX: Final = 1000
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(256))

_TOPIC_ID_SIZE: Final = 16
_UNKNOWN_OFFSET: Final = -1
_UNREAD: Final = -2
"""The offset of a batch of which nothing has been said yet."""
_VARINT_BITS_MAX: Final = 28
"""More than any count has that could be true."""


class ProduceEncoder:
    """Encodes the Produce requests of one producer."""

    __slots__ = ("_acks", "_heads", "_heads_version", "_timeout_ms", "_transactional_id")

    def __init__(self, acks: int, timeout_ms: int, transactional_id: bytes | None = None) -> None:
        self._acks = acks
        self._timeout_ms = timeout_ms
        """How long the broker may wait for the replicas."""
        self._transactional_id = transactional_id
        """In utf-8, None without transactions."""
        self._heads: dict[bytes, bytes] = {}
        """The heads of requests with a single batch are kept, by topic: where few records are sent, building one takes
        longer than the batch."""
        self._heads_version = -1
        """The Produce version of these heads."""

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
                return [head, part, _NO_TAGS_TWICE], len(head) + len(part) + 2
            return [head, part], len(head) + len(part)
        return self._encode(version, batches, flexible)

    def _head_of_one(self, version: int, batch: Batch, flexible: bool) -> bytes:
        if version != self._heads_version or len(self._heads) >= HEADS_MAX:
            self._heads.clear()
            self._heads_version = version
        key = _topic_key(version, batch)
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
        head += _ACKS_AND_TIMEOUT.pack(self._acks, self._timeout_ms)
        _put_count(head, topics, flexible)
        return head

    def _encode(self, version: int, batches: list[Batch], flexible: bool) -> tuple[list[bytes | memoryview], int]:
        groups = _by_topic(batches)
        head = self._begin(len(groups), flexible)
        parts: list[bytes | memoryview] = []
        size = 0
        for group in groups:
            _put_topic(head, version, _topic_key(version, group[0]), flexible)
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


def _topic_key(version: int, batch: Batch) -> bytes:
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
        head += _ONE_BYTE[(count & 0x7F) | 0x80]
        count >>= 7
    head += _ONE_BYTE[count]


def read_plain(version: int, body: Buffer, batches: list[Batch]) -> PlainAnswer | None:
    """Read the answer to the Produce request of `batches`; None for one that is broken or says more than "stored"."""
    answer = PlainAnswer(version, bytes(body), len(batches))
    try:
        return answer if answer.read(batches) else None
    except Exception:  # of any type: the decoder of the whole answer says what is wrong
        return None


class PlainAnswer:
    """What a broker says that stored every batch of a request: `read` reads it, part after part.

    Its other methods read one part each; they raise IndexError where the answer ends too early or can't be true.
    """

    __slots__ = (
        "_at",
        "_data",
        "_end",
        "_flexible",
        "_no_tags",
        "_nothing_else",
        "_version",
        "append_times",
        "base_offsets",
        "throttle_time_ms",
    )

    def __init__(self, version: int, data: bytes, count: int) -> None:
        self.base_offsets = [_UNREAD] * count
        """The offset of the first record of each batch, in the order of the batches of the request."""
        self.append_times = [-1] * count
        """When the broker appended each batch, in ms; -1 where the records keep their own times."""
        self.throttle_time_ms = 0
        self._version = version
        self._data = data
        self._at = 0
        self._end = len(data)
        self._flexible = version >= FIRST_FLEXIBLE
        self._no_tags = b"\x00" if self._flexible else b""
        self._nothing_else = b""
        """The rest of what is said of a partition, behind its numbers: no record errors, no message, no tags."""
        if version >= _FIRST_WITH_RECORD_ERRORS:
            self._nothing_else = b"\x01\x00\x00" if self._flexible else b"\x00\x00\x00\x00\xff\xff"

    def read(self, batches: list[Batch]) -> bool:
        """Read all; False for an answer that says anything else, or that does not fit the request of `batches`."""
        version = self._version
        count = len(batches)
        places: dict[tuple[bytes, int], int] | None = None
        read = 0
        for _ in range(self._count()):
            key = self._key()
            partitions = self._count()
            if partitions < 1:
                return False
            for _ in range(partitions):
                index = self._number(4)
                if read == count:
                    return False
                place = read
                batch = batches[read]
                if index != batch.partition.index or key != _topic_key(version, batch):
                    # Brokers may answer in an order of their own.
                    if places is None:
                        places = _places(version, batches)
                    place = places.get((key, index), -1)
                if place < 0 or self.base_offsets[place] != _UNREAD or self._number(2) != 0:
                    return False
                offset = self._number(8)
                if offset < _UNKNOWN_OFFSET:
                    return False
                self.base_offsets[place] = offset
                self.append_times[place] = self._number(8)
                if version >= _FIRST_WITH_LOG_START:
                    self._at += 8
                if not self._passes(self._nothing_else):
                    return False
                read += 1
            if not self._passes(self._no_tags):
                return False
        self.throttle_time_ms = self._number(4)
        return read == count and self._passes(self._no_tags)

    def _passes(self, expected: bytes) -> bool:
        """Whether these bytes come next; they are passed over then."""
        if not self._data.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def _number(self, size: int) -> int:
        """A signed number of `size` bytes."""
        at = self._at
        end = at + size
        if end > self._end:
            raise IndexError
        p = self._data
        value = p[at]
        if value >= 0x80:
            value -= 0x100
        for i in range(at + 1, end):
            value = value * 0x100 + p[i]
        self._at = end
        return value

    def _count(self) -> int:
        """The length of an array or of a compact string; -1 for null."""
        if not self._flexible:
            return self._number(4)
        value = shift = 0
        while shift < _VARINT_BITS_MAX:
            byte = self._number(1) & 0xFF
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value - 1
            shift += 7
        raise IndexError

    def _key(self) -> bytes:
        """The id of a topic, or its name in utf-8."""
        size = _TOPIC_ID_SIZE
        if self._version < FIRST_WITH_TOPIC_IDS:
            size = self._count() if self._flexible else self._number(2)
        at = self._at
        if size < 0 or at + size > self._end:
            raise IndexError
        self._at = at + size
        return memory.copied(self._data, at, size)


def _places(version: int, batches: list[Batch]) -> dict[tuple[bytes, int], int]:
    return {(_topic_key(version, batch), batch.partition.index): place for place, batch in enumerate(batches)}
