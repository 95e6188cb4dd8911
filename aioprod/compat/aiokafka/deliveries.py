"""Outcomes of aioprod's records as results of aiokafka's futures."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Final

from aioprod.compat.aiokafka.structs import RecordMetadata, TopicPartition
from aioprod.compat.aiokafka.translation import kafka_error
from aioprod.errors import AioprodError
from aioprod.producer.batching.batch import Run
from aioprod.producer.callbacks import UNWATCHED
from aioprod.producer.failure import Failure, is_aborted_on_purpose
from aioprod.types import RecordMetadata as Stored
from aioprod.types import TopicPartition as Place

__all__ = ["BatchDelivery", "Delivery"]

_CREATE_TIME: Final = 0
_LOG_APPEND_TIME: Final = 1


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
            timestamp = metadata.timestamp
            kind = _CREATE_TIME if timestamp == self._timestamp else _LOG_APPEND_TIME
            future.set_result(_result(metadata.topic, metadata.partition, metadata.offset, timestamp, kind))
        return None


class BatchDelivery:
    """The outcome of all records of a batch for one future: the place of the first one, or the first error.

    It is the bulk call of its records (`batching.batch.Run`); a batch that was split completes in several runs.
    """

    __slots__ = ("_error", "_is_acknowledged", "_left", "_stored", "future")

    def __init__(self, future: asyncio.Future[RecordMetadata | None], records: int, is_acknowledged: bool) -> None:
        self.future = future
        self._is_acknowledged = is_acknowledged
        self._left = records
        self._stored: RecordMetadata | None = None
        self._error: AioprodError | None = None

    @property
    def watched(self) -> bool:
        """Whether a failure is the caller's to see; any other is left to the producer, which logs it."""
        return not self.future.cancelled()

    def complete(
        self, place: Place, run: Run, offset: int, append_time: int, failure: Failure | None, first: int
    ) -> None:
        """Called once for each run, in their order; see `producer.bulk.call.Bulk.complete`."""
        self._left -= run.count
        if failure is not None:
            self._error = self._error or failure.error(first)
        elif self._stored is None:
            # Without a time of the broker, the records have times of their own.
            kind = _CREATE_TIME if append_time < 0 else _LOG_APPEND_TIME
            self._stored = _result(place.topic, place.partition, offset, append_time, kind)
        if self._left or self.future.done():
            return
        if self._error is not None:
            # It was split, and a part is stored.
            self._error.may_be_stored = self._error.may_be_stored or self._stored is not None
            _fail(self.future, self._error)
        else:
            self.future.set_result(self._stored if self._is_acknowledged else None)


def _fail(future: asyncio.Future[RecordMetadata | None], error: AioprodError) -> None:
    future.set_exception(kafka_error(error))
    if is_aborted_on_purpose(error):
        future.exception()  # Seen: aiokafka's callers need not await a record that they have thrown away themselves.


_place = lru_cache(maxsize=4096)(TopicPartition)


def _result(topic: str, partition: int, offset: int, timestamp: int, kind: int) -> RecordMetadata:
    return RecordMetadata(topic, partition, _place(topic, partition), offset, timestamp, kind, None)
