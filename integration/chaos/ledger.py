"""The records and their outcomes, as the sending process passes them to the checker.

Times are seconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, NamedTuple, Self

__all__ = ["Finding", "Found", "Gap", "Ledger", "Outcome", "Place", "Told", "sequence_of", "value_of"]

_PADDING: Final = b"." * 100


class Outcome(StrEnum):
    """What a client said of a record; FAILED is the word of clients that don't tell whether it may be stored."""

    DELIVERED = "delivered"
    NOT_SENT = "not sent"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    FAILED = "failed"
    REFUSED = "refused"  # the call itself raised: the record was never accepted
    SILENT = "silent"


class Place(NamedTuple):
    """A partition; each has one sender, whose records carry their number in the order of the calls."""

    topic: str
    partition: int


class Told(NamedTuple):
    """One record: when it was given to the client, and when the client said what (0.0 and SILENT: not yet)."""

    sent_at: float
    told_at: float = 0.0
    outcome: Outcome = Outcome.SILENT
    offset: int = -1
    error: str = ""


class Found(StrEnum):
    """What a client found out later about a record whose outcome was unknown."""

    STORED = "stored"
    ABSENT = "in no log"
    OPEN = "still unknown"


class Finding(NamedTuple):
    """The answer, `seconds` after the unknown outcome; `offset` where it is stored, the rest where it is not known.

    `calls` is 2 where the first answer was that it is still unknown.
    """

    found: Found
    offset: int = -1
    reason: str = ""
    error: str = ""
    seconds: float = 0.0
    calls: int = 1


def value_of(sequence: int) -> bytes:
    """The value of the record with that number."""
    return b"%d %s" % (sequence, _PADDING)


def sequence_of(value: bytes) -> int:
    """The number of a record that was read back; raises ValueError when the value is not one that was sent."""
    number, _, padding = value.partition(b" ")
    if padding != _PADDING:
        raise ValueError(f"no record of this run has the value {value!r}")
    return int(number)


class Gap(NamedTuple):
    """The event loop of the sending process was away from `start` to `end`, and worked for `worked_s` of that time.

    For the rest other processes had the processor, which a client can't help.
    """

    start: float
    end: float
    worked_s: float

    def robbed_s(self, since: float, until: float) -> float:
        """How much of a time it took from the process."""
        return max(0.0, min(min(self.end, until) - max(self.start, since), self.end - self.start - self.worked_s))


class Ledger:
    """All records by place, in the order of their numbers from 0; `told_twice` counts outcomes beyond the first.

    `findings` are the answers about unknown outcomes by place and number, and `bytes_read` what was read for each pass
    over a log that they took.
    """

    def __init__(self) -> None:
        self.records: defaultdict[Place, list[Told]] = defaultdict(list)
        self.told_twice = 0
        self.gaps: list[Gap] = []
        self.findings: dict[tuple[Place, int], Finding] = {}
        self.bytes_read: list[int] = []

    def new(self, place: Place, now: float) -> int:
        """The number of another record, which is about to be given to the client."""
        records = self.records[place]
        records.append(Told(now))
        return len(records) - 1

    def tell(
        self, place: Place, sequence: int, now: float, outcome: Outcome, offset: int = -1, error: str = ""
    ) -> None:
        """Note what the client says of a record."""
        records = self.records[place]
        if records[sequence].outcome is not Outcome.SILENT:
            self.told_twice += 1
            return
        records[sequence] = Told(records[sequence].sent_at, now, outcome, offset, error)

    def robbed_s(self, since: float, until: float) -> float:
        """How much of a time other processes took from the sending one."""
        first = bisect_right(self.gaps, since, key=lambda gap: gap.end)
        gaps = takewhile(lambda gap: gap.start < until, islice(self.gaps, first, None))
        return sum(gap.robbed_s(since, until) for gap in gaps)

    def all(self) -> Iterator[tuple[Place, int, Told]]:
        """Every record with its place and number."""
        for place, records in self.records.items():
            for sequence, told in enumerate(records):
                yield place, sequence, told

    def write(self, path: Path) -> None:
        """Write everything to a file, a line per record after the first one."""
        findings = [[*place, sequence, *finding] for (place, sequence), finding in self.findings.items()]
        with path.open("w") as file:
            file.write(json.dumps([self.told_twice, self.gaps, self.bytes_read, findings]) + "\n")
            for place, _, told in self.all():
                file.write(json.dumps([*place, *told]) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """What `write` wrote."""
        ledger = cls()
        with path.open() as file:
            ledger.told_twice, gaps, ledger.bytes_read, findings = json.loads(next(file))
            ledger.gaps = [Gap(*gap) for gap in gaps]
            for topic, partition, sequence, found, *rest in findings:
                ledger.findings[Place(topic, partition), sequence] = Finding(Found(found), *rest)
            for line in file:
                topic, partition, sent_at, told_at, outcome, offset, error = json.loads(line)
                told = Told(sent_at, told_at, Outcome(outcome), offset, error)
                ledger.records[Place(topic, partition)].append(told)
        return ledger
