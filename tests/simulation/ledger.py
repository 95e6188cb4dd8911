"""`Ledger`: the records that were given to the producer, and the outcomes that their callers got."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aioprod import ProducerRecord, RecordMetadata
from aioprod.errors import AioprodError, DeliveryError, NotSentError, RejectedError, UnknownOutcomeError
from aioprod.records.parser import ParsedRecord

__all__ = ["Entry", "Ledger", "Log", "Transaction", "number_in", "numbers_of"]

Log = dict[tuple[str, int, int], dict[int, int]]
"""By topic name, count of its re-creation, and partition: the numbers of the records by offset."""


@dataclass(slots=True)
class Entry:
    """One record. `begun` and `accepted` are numbers in the order of events: it was accepted between the two.
    `begun_s` is when the call began that may have accepted it; those before it raised.

    `send_error` is the exception of the call if the record was not accepted. `completions` counts its outcomes, and
    `metadata` or `error` is the last one. `offsets` are those of all records of the same call, by partition. `lost`:
    the cluster lost it. `resolved` is what `Producer.resolve` said: its place, False if it is in no log, None if it is
    not known. `cancelled`: its sender was cancelled, so only `on_error` may report its failure (`reported`).
    """

    number: int
    topic: str
    partition: int | None
    style: str
    begun: int
    begun_s: float
    accepted: int | None = None
    send_error: BaseException | None = None
    transaction: int | None = None
    metadata: RecordMetadata | None = None
    error: BaseException | None = None
    offsets: Mapping[int, frozenset[int]] | None = None
    completions: int = 0
    completed_s: float = 0.0
    cancelled: bool = False
    withdrawn: bool = False
    maybe_accepted: bool = False
    lost: bool = False
    resolved: RecordMetadata | bool | None = None
    reported: list[AioprodError] = field(default_factory=list)

    @property
    def final_error(self) -> BaseException | None:
        """The error that it ended with, from its call or from `on_error`."""
        return self.error or (self.reported[0] if self.reported else None)

    @property
    def outcome(self) -> str:
        """The class of its error, "delivered" without one, "none" if the error is not of exactly one of the classes."""
        error = self.final_error
        if error is None:
            return "delivered"
        kinds = [kind for kind in (NotSentError, UnknownOutcomeError, RejectedError) if isinstance(error, kind)]
        return kinds[0].__name__ if len(kinds) == 1 else "none"


@dataclass(slots=True)
class Transaction:
    """One transaction: `outcome` is "committed" or "aborted" once its caller got it; `commit_called` whether commit was
    called.

    `overtaken`: a delayed commit request of an earlier transaction has committed it. Before transaction.version 2 a
    coordinator does not know which transaction an EndTxn is for.
    """

    number: int
    outcome: str = ""
    commit_called: bool = False
    overtaken: bool = False
    errors: list[AioprodError] = field(default_factory=list)


class Ledger:
    """All entries by number. `closing_s` is when the producer was closed, `problems` what is wrong already.

    `forgotten_s` is when leaders lost what they knew of the producer, `fenced` the errors of a fenced producer;
    `fenced_itself`: a late copy of its own request did it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.entries: list[Entry] = []
        self.problems: list[str] = []
        self.closing_s = math.inf
        self.forgotten_s = math.inf
        self.transactions: list[Transaction] = []
        self.fenced: list[AioprodError] = []
        self.fenced_itself = False
        self._open: Transaction | None = None
        self._clock = clock
        self._events = 0

    def event(self) -> int:
        """The number of an event: later ones have higher numbers."""
        self._events += 1
        return self._events

    def begin_transaction(self) -> Transaction:
        """Begin a transaction: records sent from now on belong to it."""
        self._open = Transaction(len(self.transactions))
        self.transactions.append(self._open)
        return self._open

    def end_transaction(self) -> None:
        """End the transaction: records sent from now on belong to none."""
        self._open = None

    def overtake(self) -> None:
        """A coordinator has committed the open transaction; note it if that was an earlier one's request."""
        if self._open is not None and not self._open.commit_called:
            self._open.overtaken = True

    def begin(self, topic: str, partition: int | None, style: str) -> Entry:
        """Create the entry of a record that is about to be sent."""
        entry = Entry(len(self.entries), topic, partition, style, self.event(), self._clock())
        self.entries.append(entry)
        return entry

    def call(self, entry: Entry) -> None:
        """Note that the producer is called with the record, for the first time or again."""
        entry.begun, entry.begun_s = self.event(), self._clock()

    def accept(self, entry: Entry) -> None:
        """Note that the producer has accepted the record."""
        if entry.accepted is None:
            entry.accepted = self.event()
            self.join(entry)

    def join(self, entry: Entry) -> None:
        """Put the record into the open transaction, if there is one."""
        if entry.transaction is None and self._open is not None:
            entry.transaction = self._open.number

    def complete(self, entry: Entry, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Note the outcome that the sender got."""
        if isinstance(error, AioprodError) and not isinstance(error, DeliveryError):
            self.reject(entry, error)
            return
        entry.completions += 1
        entry.completed_s = self._clock()
        entry.metadata, entry.error = metadata, error
        self.accept(entry)

    def reject(self, entry: Entry, error: BaseException) -> None:
        """Note that the producer did not accept the record."""
        entry.send_error = error
        entry.completed_s = self._clock()

    def report(self, error: AioprodError, record: ProducerRecord) -> None:
        """The producer's `on_error` callback."""
        number = number_in(record.value)
        if number is None:
            self.problems.append(f"on_error got an unknown record: {record!r}")
            return
        entry = self.entries[number]
        entry.reported.append(error)
        entry.completed_s = self._clock()


def number_in(value: object) -> int | None:
    """The number of the entry in a record's value, None if there is none."""
    if not isinstance(value, bytes):
        return None
    head, colon, _ = value.partition(b":")
    return int(head) if colon and head.isdigit() else None


def numbers_of(records: Iterable[ParsedRecord]) -> dict[int, int]:
    """The numbers of records by offset; raises ValueError for an unknown record."""
    numbers: dict[int, int] = {}
    for record in records:
        number = number_in(record.value)
        if number is None:
            raise ValueError("The log has an unknown record.")
        numbers[record.offset] = number
    return numbers
