"""The search for unknown batches among those that are stored: headers are compared, in the order of the log."""

from __future__ import annotations

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
    """Goes through a log from an offset on, up to the deciding batch and on to the end of what was found.

    A batch is known by its producer id, its epoch, its first sequence number and its number of offsets, which it keeps
    when compaction removes records. That one is missing shows only where nothing can be before the first offset, and
    each one up to the deciding batch was there: compaction and retention leave gaps.
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
        self.is_diverted = False
        """Whether another batch is where the one before or the deciding one was acknowledged: the log has lost some."""
        self.is_decided = False
        """Whether the deciding batch was there."""
        self.found: dict[UnknownBatch, Verdict] = {}
        """The batches that are stored, and whose transaction was not aborted; the reader fills in their records."""
        self._aborted: set[UnknownBatch] = set()

    def is_done(self) -> bool:
        """Whether nothing further can change what was found."""
        return self.is_diverted or (self.is_decided and not self._unended)

    def take(self, batch: ParsedBatch) -> UnknownBatch | None:
        """Look at the next batch of the log; the unknown one that it is, if it is one."""
        if batch.base_offset > self.position:
            self.is_whole = False
        self.position = max(self.position, batch.next_offset)
        self._compare(batch)
        if batch.is_control:
            self._end(batch)
            return None
        unknown = self._wanted.get((batch.producer_id, batch.producer_epoch, batch.base_sequence))
        if unknown is None or batch.last_offset_delta + 1 != unknown.count:
            return None
        append_time = batch.max_timestamp if batch.is_log_append_time else -1
        self.found[unknown] = Verdict(batch.base_offset, {}, append_time)
        if unknown.is_transactional:
            self._unended.setdefault(unknown.producer_id, []).append(unknown)
        return unknown

    def complete_found(self) -> list[UnknownBatch]:
        """Give the batches that were found their verdicts, once their transactions have ended; returns the others."""
        unended = set(self._still_open())
        for unknown, verdict in self.found.items():
            if unknown not in unended:
                unknown.verdict = verdict
        for unknown in self._aborted:
            unknown.verdict = ABSENT
        return [one for one in self._decision.batches if one not in self.found and one not in self._aborted]

    def conclude(self) -> list[UnknownBatch]:
        """Give each batch its verdict, or say why there will be none, when the search is over.

        Returns the batches whose transaction has not ended.
        """
        for unknown in self.complete_found():
            if self.is_diverted:
                unknown.hopeless = _UNCLEAN
            elif not (self.is_whole and self.is_decided):
                unknown.hopeless = _DELETED
            elif unknown.epoch == self._decision.by.epoch:
                unknown.hopeless = _LOST_STATE
            else:
                unknown.verdict = ABSENT
        return self._still_open()

    def _still_open(self) -> list[UnknownBatch]:
        """The batches that were found and whose transaction has not ended."""
        return [unknown for some in self._unended.values() for unknown in some]

    def _compare(self, batch: ParsedBatch) -> None:
        before, by = self._decision.before, self._decision.by
        if before is not None and batch.base_offset <= before.offset < batch.next_offset:
            self.is_diverted = self.is_diverted or not _is_at(batch, before)
        if batch.base_offset <= by.offset < batch.next_offset:
            self.is_decided = _is_at(batch, by)
            self.is_diverted = self.is_diverted or not self.is_decided

    def _end(self, batch: ParsedBatch) -> None:
        """A marker ends the transaction of its producer."""
        ended = self._unended.pop(batch.producer_id, [])
        if batch.control_type() == ControlType.ABORT:
            for unknown in ended:
                del self.found[unknown]
                self._aborted.add(unknown)


def _is_at(batch: ParsedBatch, place: Place) -> bool:
    return (batch.base_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence) == place
