"""The search for unknown batches among those that are stored: headers are compared, in the order of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioprod.producer.batching.unknown import ABSENT, Decision, Place, UnknownBatch, Verdict
from aioprod.records import ControlType, ParsedBatch

__all__ = ["Search"]

_UNCLEAN: Final = (
    "unclean election",
    "the log has lost records that were acknowledged, as after an unclean election",
)
_DELETED: Final = (
    "deleted",
    "some of the offsets at which it may be are deleted by now, by retention, compaction or a command",
)
_LOST_STATE: Final = (
    "lost state",
    "a later record is stored without it, so that the brokers must have lost what they knew of this producer",
)


class Search:
    """Goes through a log from an offset on which no unknown batch of a decision is before.

    A batch is known by its producer id, its epoch and its first sequence number. That one is missing shows only where
    each offset from the first one to the deciding batch was there: compaction and retention leave gaps.
    """

    def __init__(self, decision: Decision, start: int, *, is_certain: bool) -> None:
        self._decision = decision
        self._wanted = {numbers: one for one in decision.batches for numbers in one.numbers}
        self._unended: dict[int, list[UnknownBatch]] = {}
        """Batches that were found and whose transaction has not ended, by producer id."""
        self.position = start
        """The next offset."""
        self.is_whole = is_certain
        """Whether no offset was missing; `is_certain`: nothing before `start` can be one of them."""
        self.has_broker_time = False
        """Whether a batch has timestamps of the broker's clock."""
        self.is_diverted = False
        """Whether another batch is where the one before or the deciding one was acknowledged: the log has lost some."""
        self.is_decided = False
        """Whether the deciding batch was there."""
        self.found: dict[UnknownBatch, tuple[int, int]] = {}
        """Base offset and append time (-1: none) of batches that are stored, and whose transaction was not aborted."""
        self.aborted: set[UnknownBatch] = set()

    def is_done(self) -> bool:
        """Whether nothing further can change what was found."""
        return self.is_diverted or (self.is_decided and not self._unended)

    def take(self, batch: ParsedBatch) -> UnknownBatch | None:
        """Look at the next batch of the log; the unknown one that it is, if it is one."""
        if batch.base_offset > self.position:
            self.is_whole = False
        self.position = max(self.position, batch.next_offset)
        self.has_broker_time = self.has_broker_time or batch.is_log_append_time
        self._compare(batch)
        if batch.is_control:
            self._end(batch)
            return None
        unknown = self._wanted.get((batch.producer_id, batch.producer_epoch, batch.base_sequence))
        if unknown is not None:
            self.found[unknown] = batch.base_offset, batch.max_timestamp if batch.is_log_append_time else -1
            if unknown.is_transactional:
                self._unended.setdefault(unknown.producer_id, []).append(unknown)
        return unknown

    def conclude(self, records: Mapping[UnknownBatch, dict[int, tuple[int, int, int]]]) -> list[UnknownBatch]:
        """Give each batch its verdict, or say why there will be none, when the search is over.

        `records` are those of the batches that were found. Returns the batches whose transaction has not ended.
        """
        unended = []
        for unknown in self._decision.batches:
            if unknown in self.found and not self._is_ended(unknown):
                unended.append(unknown)
            elif unknown in self.found:
                base_offset, append_time = self.found[unknown]
                unknown.verdict = Verdict(base_offset, records[unknown], append_time)
            elif unknown in self.aborted:
                unknown.verdict = ABSENT
            elif self.is_diverted:
                unknown.hopeless = _UNCLEAN
            elif not (self.is_whole and self.is_decided):
                unknown.hopeless = _DELETED
            elif unknown.epoch == self._decision.by.epoch:
                unknown.hopeless = _LOST_STATE
            else:
                unknown.verdict = ABSENT
        return unended

    def _compare(self, batch: ParsedBatch) -> None:
        before, by = self._decision.before, self._decision.by
        if before is not None and batch.base_offset <= before.offset < batch.next_offset:
            self.is_diverted = self.is_diverted or not _is_at(batch, before)
        if batch.base_offset <= by.offset < batch.next_offset:
            self.is_decided = _is_at(batch, by)
            self.is_diverted = self.is_diverted or not self.is_decided

    def _is_ended(self, unknown: UnknownBatch) -> bool:
        """Whether the transaction of a batch that was found has ended."""
        return unknown not in self._unended.get(unknown.producer_id, ())

    def _end(self, batch: ParsedBatch) -> None:
        """A marker ends the transaction of its producer."""
        ended = self._unended.pop(batch.producer_id, [])
        if batch.control_type() == ControlType.ABORT:
            for unknown in ended:
                del self.found[unknown]
                self.aborted.add(unknown)


def _is_at(batch: ParsedBatch, place: Place) -> bool:
    return (batch.base_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence) == place
