"""From what the user gives to what a batch holds: bytes, encoded headers, a partition index, milliseconds."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable
from typing import Any, Final, TypeAlias

from aioprod._logger import Logger
from aioprod._short_reprs import shown
from aioprod.errors import AioprodError, InvalidRecordError, InvalidTopicError, SerializationError, UsageError
from aioprod.interceptors import PARTITION_MAX, Interceptors
from aioprod.producer.call_order import CallOrder
from aioprod.records.headers import NO_HEADERS, encode_headers, header_list
from aioprod.serializers import Serializer
from aioprod.types import NO_VALUE, Headers, ProducerRecord, Timestamp, no_value

__all__ = ["Preparation", "Prepared", "as_bytes", "partition_index", "record_of", "seconds", "timestamp_ms"]


_logger = Logger("aioprod.producer")

_SECONDS_MAX: Final = 10**11
"""A smaller number of milliseconds is a time before March 1973, and as a number of seconds one up to the year 5138."""

Prepared: TypeAlias = tuple[str, bytes | None, bytes | None, bytes, int, int | None]
"""A record as the accumulator takes it: topic, key, value, encoded headers, partition index (-1: to be chosen), and
timestamp in ms (None: the time at which it is accepted)."""


_KEYS: Final = " Keys go apart from values, as key= of one record and keys= of send_many."


def record_of(
    topic: str | ProducerRecord,
    value: Any,
    key: Any,
    partition: int | None,
    headers: Headers | None,
    timestamp: Timestamp | None,
) -> ProducerRecord:
    """The arguments of a call as one record; raises UsageError or InvalidRecordError where they are none."""
    if not isinstance(topic, ProducerRecord):
        if value is NO_VALUE:
            raise no_value(topic)
        return ProducerRecord(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)
    if value is not NO_VALUE or any(given is not None for given in (key, partition, headers, timestamp)):
        raise InvalidRecordError("A ProducerRecord says everything itself: give no value, key or options beside it.")
    return topic


def as_bytes(what: str, topic: str, data: Any) -> bytes:
    """`data` as bytes; raises SerializationError when it is not bytes-like, UsageError when it was left out."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        try:
            return bytes(data)
        except Exception as error:
            # A memoryview that was released; a class of the caller's.
            raise SerializationError(
                f"The {what} of a record for topic {topic!r}, of type {type(data).__name__}, can't be read as bytes: "
                f"{type(error).__name__}."
            ) from error
    if data is NO_VALUE:
        raise no_value(topic)
    raise SerializationError(
        f"The {what} of a record for topic {topic!r} is of type {type(data).__name__}, and no serializer is set.",
        hint=f"Give bytes, or set {what}_serializer.{_KEYS if what == 'value' and isinstance(data, tuple) else ''}",
    )


def partition_index(topic: str, partition: object) -> int:
    """A partition as the user gives it, -1 for None; raises InvalidRecordError."""
    if partition is None:
        return -1
    if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition <= PARTITION_MAX:
        raise InvalidRecordError(
            f"{shown(partition)} is not a partition of topic {topic!r}: give an int from 0 on, or None."
        )
    return partition


def timestamp_ms(topic: str, timestamp: Timestamp) -> int:
    """A timestamp as the user gives it in milliseconds since the epoch; raises InvalidRecordError."""
    if isinstance(timestamp, datetime.datetime):
        if timestamp.tzinfo is None:
            raise InvalidRecordError(
                f"The timestamp {timestamp!r} of a record for topic {topic!r} has no time zone: give an aware datetime."
            )
        timestamp = round(timestamp.timestamp() * 1000)
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise InvalidRecordError(
            f"The timestamp of a record for topic {topic!r} is of type {type(timestamp).__name__}: give milliseconds "
            "since the epoch as an int, or an aware datetime."
        )
    if not 0 <= timestamp < 2**63:
        raise InvalidRecordError(
            f"The timestamp {timestamp} of a record for topic {topic!r} is not between 0 and 2**63 - 1 milliseconds."
        )
    return timestamp


def seconds(call: str, timeout: object) -> float | None:
    """A timeout as the user gives it; raises UsageError unless it is None or a number from 0 on."""
    if timeout is None or (isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout >= 0):
        return timeout
    raise UsageError(f"{call}(timeout={timeout!r}) is not a time: give seconds from 0 on, or None.")


def _topic_of(record: ProducerRecord) -> str:
    """The topic of a record; raises InvalidTopicError unless it is a str."""
    topic = record.topic
    if not isinstance(topic, str):
        raise InvalidTopicError(f"A topic is of type {type(topic).__name__}: give its name as a str.")
    return topic


class Preparation:
    """Runs interceptors and serializers, and checks what comes out."""

    def __init__(
        self, interceptors: Interceptors, key_serializer: Serializer | None, value_serializer: Serializer | None
    ) -> None:
        self._interceptors = interceptors
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._order = CallOrder()
        self.plain = not interceptors and key_serializer is None and value_serializer is None
        """Whether there are none, so that bytes go through as they are."""
        self._warns_of_seconds = True

    def accept(self, record: ProducerRecord) -> Prepared:
        """Run the interceptors, and `prepare` the record that they return; they are notified if that fails."""
        record = self.intercept(record)
        try:
            return self.prepare(record)
        except AioprodError as error:
            self._interceptors.on_send_error(record, record.partition, error)
            raise

    async def accept_async(self, record: ProducerRecord) -> Prepared:
        """The same where a serializer may have to be awaited."""
        record = self.intercept(record)
        try:
            return await self.prepare_async(record)
        except AioprodError as error:
            self._interceptors.on_send_error(record, record.partition, error)
            raise

    def report_not_accepted(self, topic: str, partition: int, error: AioprodError) -> None:
        """Notify the interceptors of a record that was not accepted."""
        if self._interceptors:
            self._interceptors.on_send_error(ProducerRecord(topic, None), partition, error)

    def intercept(self, record: ProducerRecord) -> ProducerRecord:
        """The record that the interceptors return for this one."""
        return self._interceptors.on_send(record) if self._interceptors else record

    def prepare(self, record: ProducerRecord) -> Prepared:
        """Serialize and check a record; raises SerializationError, InvalidRecordError, or UsageError to be awaited."""
        topic = _topic_of(record)
        if self._order.is_waiting(topic):
            raise UsageError(
                f"Earlier records for topic {topic!r} wait for their serializer, which this call can't do.",
                hint="Use `await send()` or `await send_many()`, or send after those calls have returned.",
            )
        headers = header_list(record.headers)
        key, value = record.key, record.value
        if self._key_serializer is not None:
            key = self._key_serializer.serialize_now(topic, headers, key)
        if self._value_serializer is not None:
            value = self._value_serializer.serialize_now(topic, headers, value)
        return self._checked(record, headers, key, value)

    async def prepare_async(self, record: ProducerRecord) -> Prepared:
        """The same where a serializer may have to be awaited, and then the turn of the record in its topic.

        A caller that appends the record before it awaits anything else keeps the order of the calls.
        """
        topic = _topic_of(record)
        headers = header_list(record.headers)
        key, value = record.key, record.value
        place = self._order.enter(topic) if self._order.is_waiting(topic) else None
        try:
            if self._key_serializer is not None:
                key = self._key_serializer.serialize(topic, headers, key)
                if isinstance(key, Awaitable):
                    place = place or self._order.enter(topic)
                    key = await key
            if self._value_serializer is not None:
                value = self._value_serializer.serialize(topic, headers, value)
                if isinstance(value, Awaitable):
                    place = place or self._order.enter(topic)
                    value = await value
            prepared = self._checked(record, headers, key, value)
            if place is not None:
                await place.turn()
            return prepared
        finally:
            if place is not None:
                place.leave()

    async def turn(self, topic: str | None) -> None:
        """Wait until the records of earlier calls have their serializers' results; None for those of all topics."""
        for name in self._order.topics():
            if topic is None or topic == name:
                place = self._order.enter(name)
                try:
                    await place.turn()
                finally:
                    place.leave()

    def _checked(self, record: ProducerRecord, headers: Headers, key: Any, value: Any) -> Prepared:
        topic = str.__str__(record.topic)
        return (
            topic,
            None if key is None else as_bytes("key", topic, key),
            None if value is None else as_bytes("value", topic, value),
            encode_headers(headers) if headers else NO_HEADERS,
            partition_index(topic, record.partition),
            None if record.timestamp is None else self.timestamp_ms(topic, record.timestamp),
        )

    def timestamp_ms(self, topic: str, timestamp: Timestamp) -> int:
        """A timestamp as the user gives it in milliseconds since the epoch; raises InvalidRecordError."""
        at_ms = timestamp_ms(topic, timestamp)
        if at_ms < _SECONDS_MAX and not isinstance(timestamp, datetime.datetime):
            self.warn_of_seconds(topic, at_ms)
        return at_ms

    def warn_of_seconds(self, topic: str, at_ms: int) -> None:
        """Warn once of a timestamp that is more likely to be in seconds."""
        if self._warns_of_seconds and 0 < at_ms < _SECONDS_MAX:
            self._warns_of_seconds = False
            day = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).date()
            _logger.warning(
                "The timestamp %d of a record for topic %r is in milliseconds, and so on %s: the topic's retention may "
                "delete it soon. Hint: If these are seconds, multiply them by 1000. This is said once.",
                at_ms,
                topic,
                day,
            )

    def close(self) -> None:
        """Close the serializers, and end all waiting for a turn."""
        self._order.close()
        for serializer in (self._key_serializer, self._value_serializer):
            if serializer is not None:
                serializer.close()
