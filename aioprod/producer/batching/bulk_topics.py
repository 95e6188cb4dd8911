# cython: boundscheck=False, wraparound=False
"""The topics of the rows of a bulk call that has a column of them: looked up once each, and found by their bytes."""

from __future__ import annotations

from typing import Final, Protocol

from aioprod.arrow.columns import BytesColumn
from aioprod.cluster.names import TOPIC_NAME_LENGTH_MAX
from aioprod.errors import AioprodError, InvalidTopicError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.bulk_values import BulkCall
from aioprod.producer.batching.partition import Topic
from aioprod.routing.hashes import murmur2_of

__all__ = ["RowTopics", "RowsCall"]

_TOPIC_SLOTS: Final = 256
_TOPICS_MAX: Final = 192
"""A table of topics by a hash of their names is emptied when it holds so many: a call may have any number of them."""


class RowsCall(BulkCall, Protocol):
    """A bulk call whose rows have topics of their own."""

    def number_of(self, topic: str) -> int:
        """The number of a topic among those of the call."""


class KnownTopic:
    """A topic of the call with its name as the column holds it, and its number among the topics of the call."""

    __slots__ = ("name", "number", "topic")

    def __init__(self, name: bytes, topic: Topic, number: int) -> None:
        self.name = name
        self.topic = topic
        self.number = number


class RowTopics:
    """A column of topics, and what is known of those that its rows name."""

    __slots__ = ("_bulk", "_column", "_errors", "_known", "_known_count", "number", "unknown")

    def __init__(self, column: BytesColumn, bulk: RowsCall, errors_by_topic: dict[str, AioprodError]) -> None:
        """`errors_by_topic` says of topics of the call why no record can go there; the caller adds to it."""
        self._column = column
        self._bulk = bulk
        self._errors = errors_by_topic
        self._known: list[KnownTopic | None] = []
        self._known_count = 0
        self.number = 0
        """The number of the topic that was found last."""
        self.unknown: str | None = None
        """The name of that topic if its partitions are not known."""
        self.begin_turn()

    def begin_turn(self) -> None:
        """What was known may have been forgotten since the last turn of the loop."""
        self._known_count = _TOPICS_MAX
        self.unknown = None

    def find(self, accumulator: Accumulator, row: int, now: float) -> Topic | None:
        """The topic of a row, None while its partitions are not known: it is `unknown` then."""
        column = self._column
        if not column.find(row):
            raise InvalidTopicError("The topic of a record is null.")
        if column.size > TOPIC_NAME_LENGTH_MAX:
            # It is not even hashed: many rows may share one huge name.
            raise InvalidTopicError(
                f"The topic of a record has a name of {column.size} bytes: {TOPIC_NAME_LENGTH_MAX} are allowed."
            )
        if self._known_count == _TOPICS_MAX:
            self._known = [None] * _TOPIC_SLOTS
            self._known_count = 0
        slot = murmur2_of(column.data, column.start, column.size) % _TOPIC_SLOTS
        known = self._known[slot]
        while known is not None and not self._is_name(known.name):
            slot = (slot + 1) % _TOPIC_SLOTS
            known = self._known[slot]
        if known is None:
            known = self._look_up(accumulator, now)
            if known is None:
                return None
            self._known[slot] = known
            self._known_count += 1
        self.number = known.number
        return known.topic

    def _is_name(self, name: bytes) -> bool:
        """Whether the topic of the row found has this name."""
        column = self._column
        data = column.data
        start = column.start
        left = column.size
        if left != len(name):
            return False
        while left > 0 and data[start + left - 1] == name[left - 1]:
            left -= 1
        return left == 0

    def _look_up(self, accumulator: Accumulator, now: float) -> KnownTopic | None:
        """The topic of the row found; raises InvalidTopicError, or why no record can go there."""
        column = self._column
        encoded = column.get()
        assert encoded is not None
        name = encoded.decode(errors="replace")
        if name in self._errors:
            raise self._errors[name].again()
        topic = accumulator.topic(name, now)
        if topic.parked is not None:
            self.unknown = name
            return None
        return KnownTopic(encoded, topic, self._bulk.number_of(name))
