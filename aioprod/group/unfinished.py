"""What the application has not finished: the records in its hand, and those of loops that it has left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aioprod.calls.broker_errors import named
from aioprod.errors import SerializationError, UsageError
from aioprod.group.available_records import AvailableRecords
from aioprod.group.member_log import MemberLog, place_fields
from aioprod.types import TopicPartition

__all__ = ["Unfinished", "log_left_behind"]


class Unfinished:
    """Knows which of the returned records are not finished, by partition.

    A record or list is in hand from its return until the application polls again: then its work is done. A loop that
    was left, by an exception or a `break`, has not polled again, so the records in its hand are left behind. They stay
    unfinished until they are committed, skipped or read again.
    """

    def __init__(self, available: AvailableRecords) -> None:
        self._available = available
        """Has the record in hand, where records come one by one."""
        self._list: Mapping[TopicPartition, int] = {}
        """The first offsets of the list in hand."""
        self._left: dict[TopicPartition, tuple[int, int]] = {}
        """What was left behind: the first offset, and the one after the last."""
        self._has_loop = False
        """Whether a loop over records or lists was begun."""
        self._failed: tuple[str | None, int | None, int | None] | None = None
        """The place of the record that could not be deserialized last."""

    @property
    def in_hand(self) -> Mapping[TopicPartition, int]:
        """The first offset of each partition that the record or list in hand has records of."""
        record = self._available.last
        return self._list if record is None else {TopicPartition(record.topic, record.partition): record.offset}

    def finished(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """These positions, but no further than the first record that is not finished."""
        first = {tp: offset for tp, (offset, _) in self._left.items()}
        for tp, offset in self.in_hand.items():
            first[tp] = min(offset, first.get(tp, offset))
        return {tp: min(at, first.get(tp, at)) for tp, at in positions.items()}

    def returned(self, first_offsets: Mapping[TopicPartition, int]) -> None:
        """A list is in hand."""
        self._list = first_offsets

    def polled(self) -> None:
        """The application polls: it has finished what was in hand."""
        self._available.last = None
        self._list = {}

    def loop_begins(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """A loop begins: what the one before it has in hand is left behind; returns its first offsets."""
        in_hand = self.in_hand if self._has_loop else {}
        # What was committed or skipped meanwhile ends where the position is.
        left = {tp: offset for tp, offset in in_hand.items() if offset < positions.get(tp, offset)}
        self._has_loop = True
        for tp, offset in left.items():
            first, end = self._left.get(tp, (offset, offset))
            self._left[tp] = min(first, offset), max(end, positions[tp])
        self.polled()
        return left

    def finish(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The records before these offsets are finished: they are committed or skipped."""
        in_hand = self.in_hand
        for tp, offset in offsets.items():
            first, end = self._left.pop(tp, (offset, offset))
            if offset < end:
                self._left[tp] = max(first, offset), end
        self._available.last = None
        self._list = {tp: max(first, offsets.get(tp, first)) for tp, first in in_hand.items()}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions are revoked, or are read from another offset on."""
        in_hand, some = self.in_hand, frozenset(partitions)
        for tp in some:
            self._left.pop(tp, None)
        self._available.last = None
        self._list = {tp: first for tp, first in in_hand.items() if tp not in some}

    def failed(self, error: SerializationError) -> None:
        """A record could not be deserialized; raises UsageError when it is the same one as the last time.

        An error of a kind of its own says that something else failed than the record, and one without an offset is
        about a record that a handler was to send.
        """
        if type(error) is not SerializationError or error.offset is None:
            return
        place = error.topic, error.partition, error.offset
        if place == self._failed:
            raise UsageError(
                f"The record at offset {error.offset} of partition {error.partition} of topic {error.topic!r} could "
                "not be deserialized, and was polled once more.",
                hint="Call `member.skip(error)` to continue behind it.",
            ) from error
        self._failed = place


def log_left_behind(log: MemberLog, first_offsets: Mapping[TopicPartition, int]) -> None:
    """Log that a loop was left without having finished what was in its hand."""
    tp, offset = next(iter(first_offsets.items()))
    log.warning(
        "has begun a loop after one that was left with offset %d of %s in hand: before commit() or skip() no offset "
        "from there on is committed in the background",
        offset,
        named([tp]),
        extra=place_fields([tp]),
    )
