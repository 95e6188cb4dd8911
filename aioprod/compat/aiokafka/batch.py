"""A batch that its caller fills and sends as a whole."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from aioprod.compat.aiokafka.structs import BatchRecordMetadata
from aioprod.compat.aiokafka.translation import as_kind
from aioprod.errors import InvalidRecordError, SerializationError
from aioprod.records.bounds import record_size_bound
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.records.layout import HEADER, PREFIX

__all__ = ["BatchBuilder", "in_bytes", "in_milliseconds", "plain"]

_SMALL: Final = 1024
_TAIL: Final = 1
"""The byte that a builder keeps free behind its records."""

Serializer = Callable[[Any], Any] | None


def plain(topic: Any) -> Any:
    """A topic out of an enumeration of strings, or of another subclass of str, as a str; anything else as it is."""
    return str.__str__(topic) if isinstance(topic, str) else topic


def in_bytes(what: str, data: Any) -> bytes | None:
    """`data` as bytes; raises SerializationError, a TypeError, unless it is None or has the buffer interface."""
    if data is None or type(data) is bytes:
        return data
    try:
        with memoryview(data) as view:
            return bytes(view)
    except TypeError:
        raise SerializationError(
            f"The {what} is of type {type(data).__name__}, and no {what}_serializer makes bytes of it.",
            hint=f"Give bytes, or set {what}_serializer.",
        ) from None


def in_milliseconds(timestamp: float | None) -> int:
    """A timestamp in milliseconds since the epoch, by default now; raises a TypeError and InvalidRecordError.

    Of a float the fraction is dropped, as `time.time() * 1000` is often given.
    """
    if timestamp is None:
        return int(time.time() * 1000)
    if isinstance(timestamp, float) and math.isfinite(timestamp):
        timestamp = int(timestamp)
    if isinstance(timestamp, float):
        raise InvalidRecordError(f"The timestamp {timestamp} is not a time: give milliseconds since 1970 as an int.")
    try:
        at_ms = operator.index(timestamp)
    except TypeError:
        said = f"The timestamp is of type {type(timestamp).__name__}: give milliseconds since the epoch as an int."
        raise as_kind(TypeError, InvalidRecordError(said)) from None
    if not 0 <= at_ms < 2**63:
        raise InvalidRecordError(f"The timestamp {at_ms} is not between 0 and 2**63 - 1 milliseconds.")
    return at_ms


class BatchBuilder:
    """Records for one partition, up to `max_batch_size` bytes; `AIOKafkaProducer.create_batch()` makes it.

    The first record is always taken, however large. `encoded` has the records for the producer.
    """

    def __init__(self, size_max: int, key_serializer: Serializer, value_serializer: Serializer) -> None:
        self._size_max = max(size_max, HEADER)
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._closed = False
        self._full_position = PREFIX + self._size_max
        self.encoded = RecordBatchBuilder(_buffer(min(_SMALL, self._size_max)))

    def append(
        self, *, timestamp: float | None, key: Any, value: Any, headers: Iterable[tuple[str, bytes | None]] | None = ()
    ) -> BatchRecordMetadata | None:
        """Add a record; returns its place, or None when the batch is closed or has no room, which closes it.

        `timestamp` is in milliseconds, None for now. Raises TypeError for what is not bytes after the serializers.
        """
        if self._closed:
            return None
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        if key is not None and type(key) is not bytes:
            key = in_bytes("key", key)
        if value is not None and type(value) is not bytes:
            value = in_bytes("value", value)
        at_ms = int(time.time() * 1000) if timestamp is None else in_milliseconds(timestamp)
        encoded = encode_headers(list(headers)) if headers else NO_HEADERS
        builder = self.encoded
        count = builder.count
        size = 0
        if builder.position < self._full_position or not count:
            size = builder.append(at_ms, key, value, encoded) or self._append_grown(at_ms, key, value, encoded)
        if not size:
            self.close()
            return None
        return BatchRecordMetadata(count, None, size, at_ms)

    def _append_grown(self, at_ms: int, key: bytes | None, value: bytes | None, headers: bytes) -> int:
        """Take a record for which the buffer is too small, unless that can grow no more."""
        builder = self.encoded
        held = len(builder.buffer) - PREFIX - _TAIL
        if builder.count and held >= self._size_max:
            return 0
        bound = record_size_bound(key, value, headers)
        first = HEADER + bound if builder.count == 0 else 0
        builder.grow(_buffer(max(min(max(builder.size + bound, 2 * held), self._size_max), first)))
        return builder.append(at_ms, key, value, headers)

    def close(self) -> None:
        """Take no more records, neither here nor, once it is sent, from `send()`."""
        self._closed = True

    def closed(self) -> bool:
        """Whether it takes no more records."""
        return self._closed

    def size(self) -> int:
        """Its bytes before compression."""
        return self.encoded.size

    def record_count(self) -> int:
        """How many records it has."""
        return self.encoded.count


def _buffer(size: int) -> bytearray:
    """A buffer for a batch of so many bytes."""
    return bytearray(PREFIX + size + _TAIL)
