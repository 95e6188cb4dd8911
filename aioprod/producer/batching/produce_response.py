"""The plain answer to a Produce request, which nearly every one is: each batch is stored, and nothing else is said.

It is read by hand because every batch pays for it. What `aioprod.messages.ProduceResponse` could say besides (errors,
leader hints) is the codec's business: `read_plain` finds such an answer not plain and leaves it alone.
"""

from __future__ import annotations

from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.produce_request import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, topic_key
from aioprod.wire import memory
from aioprod.wire.buffer import Buffer

__all__ = ["PlainAnswer", "read_plain"]

FIRST_WITH_LOG_START = 5
FIRST_WITH_RECORD_ERRORS = 8
TOPIC_ID_SIZE = 16
UNKNOWN_OFFSET = -1
UNREAD = -2
"""The offset of a batch of which nothing has been said yet."""

VARINT_BITS_MAX = 28
"""More than any count has that could be true."""


class PlainAnswer:
    """What a broker says that stored every batch of a request.

    `base_offsets` and `append_times` (ms, -1 where the records keep their own) have one number for each batch, in the
    order of the batches.
    """

    __slots__ = ("append_times", "base_offsets", "throttle_time_ms")

    def __init__(self, count: int) -> None:
        self.base_offsets = [UNREAD] * count
        self.append_times = [-1] * count
        self.throttle_time_ms = 0


class AnswerCursor:
    """Reads the parts of an answer one after the other; IndexError where it ends too early or can't be true."""

    __slots__ = ("data", "end", "flexible", "position", "version")

    def __init__(self, data: bytes, version: int) -> None:
        self.data = data
        self.end = len(data)
        self.version = version
        self.flexible = version >= FIRST_FLEXIBLE
        self.position = 0

    def number(self, size: int) -> int:
        """A signed number of `size` bytes."""
        at = self.position
        end = at + size
        if end > self.end:
            raise IndexError
        p = self.data
        value = p[at]
        if value >= 0x80:
            value -= 0x100
        for i in range(at + 1, end):
            value = value * 0x100 + p[i]
        self.position = end
        return value

    def count(self) -> int:
        """The length of an array or of a compact string; -1 for null."""
        if not self.flexible:
            return self.number(4)
        value = shift = 0
        while shift < VARINT_BITS_MAX:
            byte = self.number(1) & 0xFF
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value - 1
            shift += 7
        raise IndexError

    def topic_key(self) -> bytes:
        """The id of a topic, or its name in utf-8."""
        size = TOPIC_ID_SIZE
        if self.version < FIRST_WITH_TOPIC_IDS:
            size = self.count() if self.flexible else self.number(2)
        start = self.position
        if size < 0 or start + size > self.end:
            raise IndexError
        self.position = start + size
        return memory.copied(self.data, start, size)

    def has_no_tags(self) -> bool:
        """Whether the tag section that comes next is empty, or there is none in this version."""
        return not self.flexible or self.number(1) == 0

    def says_nothing_else(self) -> bool:
        """Whether the rest of what is said of a partition is as plain as its beginning; passes over it then."""
        if self.version >= FIRST_WITH_LOG_START:
            self.number(8)
        if self.version >= FIRST_WITH_RECORD_ERRORS:
            if self.count() != 0:
                return False
            if (self.count() if self.flexible else self.number(2)) != -1:
                return False
        return self.has_no_tags()


def read_plain(version: int, body: Buffer, batches: list[Batch]) -> PlainAnswer | None:
    """Read the answer to the Produce request of `batches`; None for one that is broken or says more than "stored"."""
    try:
        return _read_plain(AnswerCursor(bytes(body), version), batches)
    except Exception:  # of any type: the decoder of the whole answer says what is wrong
        return None


def _read_plain(cursor: AnswerCursor, batches: list[Batch]) -> PlainAnswer | None:
    count = len(batches)
    answer = PlainAnswer(count)
    keys = _topic_keys(cursor.version, batches)
    places: dict[tuple[bytes, int], int] | None = None
    read = 0
    for _ in range(cursor.count()):
        key = cursor.topic_key()
        partitions = cursor.count()
        if partitions < 1:
            return None
        for _ in range(partitions):
            index = cursor.number(4)
            if read == count:
                return None
            place = read
            batch = batches[read]
            if index != batch.partition.index or key != keys[read]:
                # Brokers may answer in an order of their own.
                if places is None:
                    places = _places(keys, batches)
                place = places.get((key, index), -1)
            if place < 0 or answer.base_offsets[place] != UNREAD or cursor.number(2) != 0:
                return None
            offset = cursor.number(8)
            if offset < UNKNOWN_OFFSET:
                return None
            answer.base_offsets[place] = offset
            answer.append_times[place] = cursor.number(8)
            if not cursor.says_nothing_else():
                return None
            read += 1
        if not cursor.has_no_tags():
            return None
    answer.throttle_time_ms = cursor.number(4)
    return answer if read == count and cursor.has_no_tags() else None


def _topic_keys(version: int, batches: list[Batch]) -> list[bytes]:
    """What the topic of each batch is called in the answer."""
    keys: list[bytes] = []
    key = b""
    topic = None
    for batch in batches:
        if batch.partition.topic is not topic:
            topic = batch.partition.topic
            key = topic_key(version, batch)
        keys.append(key)
    return keys


def _places(keys: list[bytes], batches: list[Batch]) -> dict[tuple[bytes, int], int]:
    return {(keys[place], batch.partition.index): place for place, batch in enumerate(batches)}
