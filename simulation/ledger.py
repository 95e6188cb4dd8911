"""What was given to the producer, and what it said became of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aioprod import ProducerRecord, RecordMetadata
from aioprod.errors import AioprodError, DeliveryError, NotSentError, RejectedError, UnknownOutcomeError
from aioprod.records.parser import ParsedRecord

__all__ = ["Entry", "Ledger", "Log", "Transaction", "number_in", "numbers_of"]

Log = dict[tuple[str, int, int], dict[int, int]]
"""Name of a topic, which of the topics of that name, and partition: the numbers of the records there by offset."""


@dataclass(slots=True)
class Entry:
    """One record. `begun` and `accepted` are numbers in the order of events: it was accepted somewhere in between.

    `refused` is why it was never accepted. `told` counts the outcomes, `metadata` or `error` is the last one.
    `somewhere` are the offsets by partition of all records of the same call. `lost`: the cluster lost it.
    `abandoned`: its sender was cancelled, so that only `on_error` may tell of it (`reported`).
    """

    number: int
    topic: str
    partition: int | None
    style: str
    begun: int
    begun_s: float
    accepted: int | None = None
    refused: BaseException | None = None
    transaction: int | None = None
    metadata: RecordMetadata | None = None
    error: BaseException | None = None
    somewhere: Mapping[int, frozenset[int]] | None = None
    told: int = 0
    told_s: float = 0.0
    abandoned: bool = False
    withdrawn: bool = False
    maybe_accepted: bool = False
    lost: bool = False
    reported: list[AioprodError] = field(default_factory=list)

    @property
    def final_error(self) -> BaseException | None:
        """The error that it ended with, whoever was told."""
        return self.error or (self.reported[0] if self.reported else None)

    @property
    def outcome(self) -> str:
        """The name of the one family of its error, "delivered" without one, "none" of an error that has no family."""
        error = self.final_error
        if error is None:
            return "delivered"
        families = [kind for kind in (NotSentError, UnknownOutcomeError, RejectedError) if isinstance(error, kind)]
        return families[0].__name__ if len(families) == 1 else "none"


@dataclass(slots=True)
class Transaction:
    """One transaction: `outcome` is "committed" or "aborted" once somebody was told; `asked` whether to commit it.

    `overtaken`: a commit of an earlier one, which had been on its way for long, has ended it. Before
    transaction.version 2 nothing tells a coordinator of which transaction a request to end one speaks.
    """

    number: int
    outcome: str = ""
    asked: bool = False
    overtaken: bool = False
    errors: list[AioprodError] = field(default_factory=list)


class Ledger:
    """All entries by number; each is told here what became of it. `closing_s` is when the producer was closed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.entries: list[Entry] = []
        self.problems: list[str] = []
        self.closing_s = math.inf
        self.transactions: list[Transaction] = []
        self.fenced: list[AioprodError] = []
        self._open: Transaction | None = None
        self._clock = clock
        self._events = 0

    def event(self) -> int:
        """The number of an event: later ones have higher numbers."""
        self._events += 1
        return self._events

    def begin_transaction(self) -> Transaction:
        """What is sent from now on belongs to it."""
        self._open = Transaction(len(self.transactions))
        self.transactions.append(self._open)
        return self._open

    def end_transaction(self) -> None:
        """What is sent from now on belongs to none."""
        self._open = None

    def overtake(self) -> None:
        """A coordinator commits what is open, in a version in which nothing says that this was meant."""
        if self._open is not None and not self._open.asked:
            self._open.overtaken = True

    def begin(self, topic: str, partition: int | None, style: str) -> Entry:
        """A record is about to be given to the producer."""
        entry = Entry(len(self.entries), topic, partition, style, self.event(), self._clock())
        self.entries.append(entry)
        return entry

    def accept(self, entry: Entry) -> None:
        """It has been accepted by now."""
        if entry.accepted is None:
            entry.accepted = self.event()
            self.join(entry)

    def join(self, entry: Entry) -> None:
        """It belongs to the transaction that is open, if one is."""
        if entry.transaction is None and self._open is not None:
            entry.transaction = self._open.number

    def hear(self, entry: Entry, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Its sender was told the outcome."""
        if isinstance(error, AioprodError) and not isinstance(error, DeliveryError):
            self.refuse(entry, error)
            return
        entry.told += 1
        entry.told_s = self._clock()
        entry.metadata, entry.error = metadata, error
        self.accept(entry)

    def refuse(self, entry: Entry, error: BaseException) -> None:
        """It was not accepted."""
        entry.refused = error
        entry.told_s = self._clock()

    def report(self, error: AioprodError, record: ProducerRecord) -> None:
        """The producer's `on_error`."""
        number = number_in(record.value)
        if number is None:
            self.problems.append(f"on_error got a record that nobody sent: {record!r}")
            return
        entry = self.entries[number]
        entry.reported.append(error)
        entry.told_s = entry.told_s or self._clock()


def number_in(value: object) -> int | None:
    """The number of the entry that a value was made for."""
    if not isinstance(value, bytes):
        return None
    head, colon, _ = value.partition(b":")
    return int(head) if colon and head.isdigit() else None


def numbers_of(records: Iterable[ParsedRecord]) -> dict[int, int]:
    """The numbers of records by offset; raises ValueError for one that nobody sent."""
    numbers: dict[int, int] = {}
    for record in records:
        number = number_in(record.value)
        if number is None:
            raise ValueError("The log holds a record that nobody sent.")
        numbers[record.offset] = number
    return numbers
