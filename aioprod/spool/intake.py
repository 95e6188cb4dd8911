"""From what the user gives to what the disk gets: serializers, interceptors, and the checks of a producer."""

from __future__ import annotations

from typing import Any, Final

from aioprod.calls.session import check_topic_name
from aioprod.config import ProducerConfig
from aioprod.producer.batching.buffer_memory import record_too_large
from aioprod.producer.clock import Clock
from aioprod.producer.preparation import Preparation, as_bytes, partition_index, record_of
from aioprod.records.bounds import record_size_bound
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.records.layout import HEADER
from aioprod.spool.entries import encode_entry
from aioprod.types import Headers, ProducerRecord, Timestamp

__all__ = ["Intake"]

_LOOSE: Final = 100
"""More than a record has beside its data."""
_TOPICS_MAX: Final = 1000
"""Topics whose encoded names are kept."""


class Intake:
    """Makes the bytes of records. What a producer would not accept raises here, before anything is kept."""

    def __init__(self, config: ProducerConfig, preparation: Preparation, seed: int, clock: Clock | None = None) -> None:
        self.preparation = preparation
        self.seed = seed
        """What the checksums of the spool begin with."""
        self._clock = clock or Clock()
        """The time of records without a timestamp."""
        self._is_plain = self.preparation.plain
        self._config = config
        self._size_max = min(config.max_request_size - HEADER, config.buffer_memory)
        self._topics: dict[str, bytes] = {}

    def encode(
        self,
        topic: str | ProducerRecord,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp: Timestamp | None,
    ) -> bytearray:
        """A record as the spool has it; raises InvalidRecordError and its subclasses, or UsageError."""
        if not self._is_plain or type(topic) is not str:
            record = record_of(topic, value, key, partition, headers, timestamp)
            return self.encode_prepared(*self.preparation.accept(record))
        if key is not None and type(key) is not bytes:
            key = as_bytes("key", topic, key)
        if value is not None and type(value) is not bytes:
            value = as_bytes("value", topic, value)
        encoded = NO_HEADERS if headers is None else encode_headers(headers)
        index = -1 if partition is None else partition_index(topic, partition)
        at_ms = None if timestamp is None else self.preparation.timestamp_ms(topic, timestamp)
        return self.encode_prepared(topic, key, value, encoded, index, at_ms)

    async def encode_async(
        self,
        topic: str | ProducerRecord,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp: Timestamp | None,
    ) -> bytearray:
        """The same where a serializer may have to be awaited."""
        if self._is_plain and type(topic) is str:
            return self.encode(topic, value, key, partition, headers, timestamp)
        record = record_of(topic, value, key, partition, headers, timestamp)
        return self.encode_prepared(*(await self.preparation.accept_async(record)))

    def encode_prepared(
        self, topic: str, key: bytes | None, value: bytes | None, headers: bytes, partition: int, timestamp: int | None
    ) -> bytearray:
        """A record that went through interceptors and serializers: what `Prepared` has."""
        name = self._topics.get(topic)
        if name is None:
            name = self._encoded_topic(topic)
        size = len(headers)
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        if size > self._size_max - _LOOSE:
            self._check_size(topic, key, value, headers)
        at_ms = self._clock.timestamp_ms(self._clock.now_ns()) if timestamp is None else timestamp
        return encode_entry(name, key, value, headers, partition, at_ms, self.seed)

    def _encoded_topic(self, topic: str) -> bytes:
        check_topic_name(topic)
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        encoded = self._topics[topic] = topic.encode()
        return encoded

    def _check_size(self, topic: str, key: bytes | None, value: bytes | None, headers: bytes) -> None:
        bound = record_size_bound(key, value, headers)
        if bound > self._size_max:
            raise record_too_large(topic, bound, self._config.max_request_size, self._config.buffer_memory)
