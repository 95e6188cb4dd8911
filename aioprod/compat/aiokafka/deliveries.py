"""Outcomes of aioprod's records as results of aiokafka's futures."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from aioprod.compat.aiokafka.structs import RecordMetadata, TopicPartition
from aioprod.compat.aiokafka.translation import kafka_error
from aioprod.errors import AioprodError
from aioprod.producer.callbacks import UNWATCHED
from aioprod.producer.failure import is_aborted_on_purpose
from aioprod.types import RecordMetadata as Stored

__all__ = ["BatchDelivery", "Delivery"]

CREATE_TIME = 0
LOG_APPEND_TIME = 1


class Delivery:
    """The outcome of one record for a future of its own, so that cancelling that does not withdraw the record.

    `timestamp` is the record's, in ms: the broker has set another one if that of the outcome differs.
    """

    __slots__ = ("_is_acknowledged", "_timestamp", "future")

    def __init__(self, future: asyncio.Future[RecordMetadata | None], timestamp: int, is_acknowledged: bool) -> None:
        self.future = future
        self._timestamp = timestamp
        self._is_acknowledged = is_acknowledged

    def done(self, metadata: Stored | None, error: AioprodError | None) -> object:
        """Called once; a failure that no caller waits for is left to the producer, which logs it."""
        future = self.future
        if future.done():
            return None if error is None else UNWATCHED
        if error is not None:
            _fail(future, error)
        elif metadata is None or not self._is_acknowledged:
            future.set_result(None)
        else:
            kind = CREATE_TIME if metadata.timestamp == self._timestamp else LOG_APPEND_TIME
            future.set_result(_result(metadata, metadata.timestamp, kind))
        return None


class BatchDelivery:
    """The outcome of all records of a batch for one future: the place of the first one, or the first error."""

    __slots__ = ("_error", "_first", "_is_acknowledged", "_left", "_timestamp", "future")

    def __init__(
        self, future: asyncio.Future[RecordMetadata | None], timestamp: int, is_acknowledged: bool, records: int
    ) -> None:
        self.future = future
        self._timestamp = timestamp
        self._is_acknowledged = is_acknowledged
        self._left = records
        self._first: Stored | None = None
        self._error: AioprodError | None = None

    def done(self, metadata: Stored | None, error: AioprodError | None) -> object:
        """Called once for each record, in their order."""
        self._left -= 1
        self._first = self._first or metadata
        self._error = self._error or error
        future = self.future
        if future.done():
            return None if error is None else UNWATCHED
        if self._left:
            return None
        if self._error is not None:
            failed = self._error.again()
            failed.may_be_stored = failed.may_be_stored or self._first is not None  # It was split, and a part is.
            _fail(future, failed)
        elif self._first is None or not self._is_acknowledged:
            future.set_result(None)
        elif self._first.timestamp == self._timestamp:
            future.set_result(_result(self._first, -1, CREATE_TIME))  # The records have times of their own.
        else:
            future.set_result(_result(self._first, self._first.timestamp, LOG_APPEND_TIME))
        return None


def _fail(future: asyncio.Future[RecordMetadata | None], error: AioprodError) -> None:
    future.set_exception(kafka_error(error))
    if is_aborted_on_purpose(error):
        future.exception()  # Seen: aiokafka's callers need not await a record that they have thrown away themselves.


_place = lru_cache(maxsize=4096)(TopicPartition)


def _result(stored: Stored, timestamp: int, kind: int) -> RecordMetadata:
    topic, partition = stored.topic, stored.partition
    return RecordMetadata(topic, partition, _place(topic, partition), stored.offset, timestamp, kind, None)
