"""Batches whose outcome is unknown, and the later batches that decide about them.

A broker may still have such a batch on its way in. Two acknowledgements end that, as `Sequences` sends no batch behind
it before all in flight are answered:

- of a later batch of the same producer id and epoch: by the rule of sequence numbers the batch is stored before it;
- of a batch of a higher epoch of the same id, which a leader has appended: it rejects the older epoch from then on, and
  so do those that follow it, as the batch is on all replicas in sync (acks=all). The unknown batch is stored before
  it, or nowhere.

Another producer id decides nothing. What was acknowledged before is before the unknown batch in the log, so that the
place of both bounds what has to be read (`search.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aioprod.errors import DeliveryError, StillUnknownError, UnknownOutcomeError
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.records.bounds import RECORD_OVERHEAD_MAX

__all__ = ["ABSENT", "AGAIN", "RECREATED", "Decision", "Place", "Sent", "UnknownBatch", "UnknownBatches", "Verdict"]

KEPT_MAX: Final = 10_000
"""So many batches are kept."""
KEPT_S: Final = 12 * 3600.0
"""For so long: a broker keeps the state of a producer for a day by default (`producer.id.expiration.ms`)."""

AGAIN: Final = "Call resolve() again."
"""The hint where a later call may find out more."""
_IDLE: Final = "The next record of its partition decides: send one, and call resolve() again."
RECREATED: Final = ("recreated", "its topic was deleted, or created again")


class Place(NamedTuple):
    """A batch of this producer that is stored: `sequence` is the number of its first record."""

    offset: int
    producer_id: int
    epoch: int
    sequence: int


class Verdict(NamedTuple):
    """What became of a batch; `base_offset` is -1 where it is in no log and never will be.

    `records` has timestamp (ms), key size and value size of each record by its place in the batch, the sizes -1 for
    null; a record that compaction has removed is not there.
    """

    base_offset: int
    records: dict[int, tuple[int, int, int]]
    append_time: int = -1
    """That of the broker in ms, -1 where the records keep their own."""


ABSENT: Final = Verdict(-1, {})
"""The verdict of a batch that is in no log and never will be."""


class Decision:
    """An acknowledged batch that decides about unknown ones: they are stored between `before` and `by`, or nowhere."""

    __slots__ = ("batches", "before", "by")

    def __init__(self, batches: list[UnknownBatch], before: Place | None, by: Place) -> None:
        self.batches = batches
        self.before = before
        """The last batch that was acknowledged before them; None if there was none."""
        self.by = by
        """The batch that decides; the only unknown one itself where its late answer gave its place."""


class UnknownBatch:
    """What is kept about a batch whose outcome is unknown; the errors of its records refer to it."""

    __slots__ = (
        "base_sequence",
        "count",
        "decision",
        "epoch",
        "failed_at",
        "hopeless",
        "is_transactional",
        "max_timestamp",
        "numbers",
        "owner",
        "partition",
        "producer_id",
        "serial",
        "size_max",
        "topic",
        "topic_id",
        "verdict",
    )

    def __init__(self, owner: object, batch: Batch, now: float, *, is_transactional: bool) -> None:
        self.owner = owner
        """Stands for the producer that sent it."""
        self.topic = batch.partition.topic.name
        self.partition = batch.partition.index
        self.topic_id: bytes | None = batch.topic_id
        self.numbers = list(batch.former or ())
        """Producer id, epoch and first sequence number of each time that it was sent, the last one last."""
        if batch.base_sequence >= 0:
            self.numbers.append((batch.producer_id, batch.epoch, batch.base_sequence))
        self.producer_id, self.epoch, self.base_sequence = self.numbers[-1]
        self.count = batch.builder.count
        """How many records it has."""
        self.size_max = batch.builder.size + self.count * RECORD_OVERHEAD_MAX
        """So many bytes they may take where they are stored, uncompressed: compaction encodes times again."""
        self.max_timestamp = batch.builder.max_timestamp
        """In ms, of the producer's clock."""
        self.is_transactional = is_transactional
        self.serial = batch.serial
        self.failed_at = now
        """In monotonic seconds."""
        self.decision: Decision | None = None
        self.verdict: Verdict | None = None
        self.hopeless: tuple[str, str] | None = None
        """The reason, and in a sentence why it will never be known; None while it may be."""

    def still_unknown(self, reason: str, why: str, hint: str | None = None) -> StillUnknownError:
        """The error for each of its records; `why` is the rest of the sentence."""
        return StillUnknownError(
            f"It is not known whether the record of {self.topic}-{self.partition} is stored: {why}.",
            reason=reason,
            hint=hint,
        )

    def too_late(self, limit_s: float) -> StillUnknownError:
        """The error after so many seconds in which nothing was found out."""
        if self.decision is None:
            return self.still_unknown("undecided", f"no later record decided it within {limit_s:g} s", _IDLE)
        return self.still_unknown("unanswered", f"its partition could not be read within {limit_s:g} s", AGAIN)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # Only the producer that sent it can find out: the error alone is for other processes.


class Sent:
    """A record of an unknown batch."""

    __slots__ = ("batch", "index")

    def __init__(self, batch: UnknownBatch, index: int) -> None:
        self.batch: UnknownBatch | None = batch
        """None in another process."""
        self.index = index
        """Its place in the batch."""

    @property
    def is_open(self) -> bool:
        """Whether it may become known what happened to it."""
        return self.batch is not None and self.batch.hopeless is None


class UnknownBatches:
    """The batches of a producer whose outcome is unknown, the oldest first."""

    def __init__(self, decided: Callable[[Sequence[UnknownBatch]], object]) -> None:
        self._decided = decided
        """Takes those that were decided, all by one decision, or can't be any more."""
        self.owner = object()
        """Stands for this producer in what errors refer to, which live on."""
        self._kept: dict[UnknownBatch, Partition] = {}

    def add(
        self, batch: Batch, family: type[DeliveryError], now: float, *, is_transactional: bool
    ) -> UnknownBatch | None:
        """Keep what is needed to find out about a batch that fails with this kind of error.

        None where its outcome is known, or it has no sequence numbers. The oldest are forgotten if there are too many.
        """
        if family is not UnknownOutcomeError or (batch.base_sequence < 0 and batch.former is None):
            return None
        unknown = UnknownBatch(self.owner, batch, now, is_transactional=is_transactional)
        partition = batch.partition
        if len(self._kept) >= KEPT_MAX:
            self._abandon(next(iter(self._kept)), "long ago", f"{KEPT_MAX:,} batches became unknown after it")
        self._kept[unknown] = partition
        partition.unknown = {} if partition.unknown is None else partition.unknown
        partition.unknown[unknown] = None
        batch.unknown = unknown
        return unknown

    def poll(self, now: float) -> float:
        """Forget what is too old; returns when that is next, in monotonic seconds."""
        while self._kept:
            oldest = next(iter(self._kept))
            due = oldest.failed_at + KEPT_S
            if now < due:
                return due
            self._abandon(oldest, "long ago", f"it failed more than {KEPT_S / 3600:g} hours ago")
        return math.inf

    def decide(self, batch: Batch, base_offset: int) -> None:
        """A batch is stored at `base_offset`: it decides about those that were sent before it to its partition."""
        partition = batch.partition
        by = Place(base_offset, batch.producer_id, batch.epoch, batch.base_sequence)
        found: list[UnknownBatch] = []
        for unknown in list(partition.unknown or ()):
            if unknown.serial > batch.serial:
                continue
            if unknown.topic_id != batch.topic_id:
                self._abandon(unknown, *RECREATED)
            elif unknown.producer_id != by.producer_id:
                self._abandon(
                    unknown,
                    "another producer id",
                    f"it was sent with producer id {unknown.producer_id}, and the partition continued with "
                    f"{by.producer_id}: that keeps no late request out",
                )
            elif unknown.epoch <= by.epoch:
                found.append(unknown)
        if found:
            self._decide(Decision(found, self._before(partition, found), by))

    def _before(self, partition: Partition, batches: list[UnknownBatch]) -> Place | None:
        """The batch that was acknowledged last, if that was sent before all of these, and in no later epoch."""
        if not 0 <= partition.acknowledged_serial < min(one.serial for one in batches):
            return None
        is_same_id = partition.acknowledged_producer_id == batches[0].producer_id
        if is_same_id and partition.acknowledged_epoch > min(one.numbers[0][1] for one in batches):
            return None
        return Place(
            partition.acknowledged_offset,
            partition.acknowledged_producer_id,
            partition.acknowledged_epoch,
            partition.acknowledged_sequence,
        )

    def answered_late(self, unknown: UnknownBatch, base_offset: int, append_time: int) -> None:
        """The answer to a batch has come after its deadline: it is stored at `base_offset`.

        Nothing has to be read for that, but where its transaction decides. `append_time` is in ms, -1 where the records
        keep their own.
        """
        if unknown.decision is None and unknown.hopeless is None:
            if not unknown.is_transactional:
                unknown.verdict = Verdict(base_offset, {}, append_time)
            place = Place(base_offset, unknown.producer_id, unknown.epoch, unknown.base_sequence)
            self._decide(Decision([unknown], place, place))

    def _decide(self, decision: Decision) -> None:
        for unknown in decision.batches:
            unknown.decision = decision
            self._forget(unknown)
        self._decided(decision.batches)

    def transaction_aborted(self, producer_id: int, epoch: int) -> None:
        """Brokers reject what has not arrived of an aborted transaction, as it has an older epoch than this one."""
        absent = [
            unknown
            for unknown in self._kept
            if unknown.is_transactional and unknown.producer_id == producer_id and unknown.epoch < epoch
        ]
        for unknown in absent:
            unknown.verdict = ABSENT
            self._forget(unknown)
        self._decided(absent)

    def topic_deleted(self, topic: Topic) -> None:
        """A topic was deleted, or also created again: its log is gone."""
        for partition in topic.partitions:
            for unknown in list(partition.unknown or ()):
                self._abandon(unknown, *RECREATED)

    def _abandon(self, unknown: UnknownBatch, reason: str, why: str) -> None:
        unknown.hopeless = (reason, why)
        self._forget(unknown)
        self._decided([unknown])

    def _forget(self, unknown: UnknownBatch) -> None:
        partition = self._kept.pop(unknown, None)
        if partition is not None and partition.unknown is not None:
            del partition.unknown[unknown]
            if not partition.unknown:
                partition.unknown = None
