"""Compare the outcomes that the client reported with the records in the log."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from integration.chaos.ledger import Finding, Found, Ledger, Outcome, Place, Told
from integration.chaos.modes import LATE_S
from integration.chaos.resolved import last_delivered

__all__ = ["Stored", "Verdict", "judge"]

_EXAMPLES_MAX: Final = 5
_ERRORS_MAX: Final = 6
_NEVER_STORED: Final = (Outcome.NOT_SENT, Outcome.REJECTED, Outcome.REFUSED)


class Stored(NamedTuple):
    """A record in the log of a partition."""

    offset: int
    sequence: int


@dataclass(slots=True)
class Verdict:
    """Counts of records by outcome (`told`) and by flaw (`flaws`), with some examples of each flaw.

    `stored_unknown`: unknown or failed, and in the log; no flaw. `late`: the outcome came later than was asked.
    `slowest_s` is the longest time between a call and its outcome.
    """

    sent: int = 0
    told: Counter[str] = field(default_factory=Counter)
    flaws: Counter[str] = field(default_factory=Counter)
    stored_unknown: int = 0
    slowest_s: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def flaw(self, name: str, example: str, count: int = 1) -> None:
        """Count a flaw."""
        self.flaws[name] += count
        if len(self.examples[name]) < _EXAMPLES_MAX:
            self.examples[name].append(example)


def judge(
    ledger: Ledger, log: Mapping[Place, Sequence[Stored]], *, deadline_s: float, gone: Container[str] = ()
) -> Verdict:
    """Compare; of the topics in `gone` there is no log, so that only outcomes are looked at.

    An outcome is late that comes more than 1.5 s after the deadline. Time in which other processes had the processor
    does not count for that.
    """
    verdict = Verdict()
    errors: Counter[str] = Counter()
    for place, records in ledger.records.items():
        _judge_outcomes(verdict, place, records, ledger, deadline_s)
        errors.update(told.error for told in records if told.error)
        if place.topic not in gone:
            _judge_log(verdict, place, records, log.get(place, ()))
            _judge_findings(verdict, place, ledger, log.get(place, ()))
    for place in log.keys() - ledger.records.keys():
        if log[place]:
            verdict.flaw("invented", f"{place} holds records that nobody sent", len(log[place]))
    if ledger.told_twice:
        verdict.flaw("told twice", "an outcome was told again", ledger.told_twice)
    verdict.errors = Counter(dict(_kinds(errors).most_common(_ERRORS_MAX)))
    return verdict


def _judge_outcomes(verdict: Verdict, place: Place, records: Iterable[Told], ledger: Ledger, deadline_s: float) -> None:
    for sequence, told in enumerate(records):
        verdict.sent += 1
        verdict.told[told.outcome] += 1
        if told.outcome is Outcome.SILENT:
            verdict.flaw("hung", f"{_name(place, sequence)}, sent at {told.sent_at:.3f}, was never told")
            continue
        took_s = told.told_at - told.sent_at
        verdict.slowest_s = max(verdict.slowest_s, took_s)
        # After its deadline a record can wait for the processor only.
        if took_s - ledger.robbed_s(told.sent_at + deadline_s, told.told_at) > deadline_s + LATE_S:
            verdict.flaw("late", f"{_name(place, sequence)} was {told.outcome} after {took_s:.3f} s: {told.error}")


def _judge_log(verdict: Verdict, place: Place, records: Sequence[Told], log: Iterable[Stored]) -> None:
    offsets: dict[int, list[int]] = {}
    highest = -1
    for offset, sequence in log:
        if sequence in offsets:
            first = offsets[sequence][0]
            was = f"{records[sequence].outcome} at {records[sequence].offset}" if sequence < len(records) else "unsent"
            verdict.flaw("duplicated", f"{_name(place, sequence)}: offset {first}, again {offset}; it was {was}")
            offsets[sequence].append(offset)
            continue
        offsets[sequence] = [offset]
        if sequence < highest:
            verdict.flaw("out of order", f"{_name(place, sequence)} at offset {offset} is behind {highest}")
        highest = max(highest, sequence)
        if sequence >= len(records):
            verdict.flaw("invented", f"{_name(place, sequence)} at offset {offset} was never sent")
    for sequence, told in enumerate(records):
        _judge_record(verdict, _name(place, sequence), told, offsets.get(sequence, []))


def _judge_record(verdict: Verdict, name: str, told: Told, offsets: Sequence[int]) -> None:
    if told.outcome is Outcome.DELIVERED:
        if not offsets:
            verdict.flaw(
                "lost", f"{name}, delivered at offset {told.offset} after {told.told_at:.3f}, is not in the log"
            )
        # A client that learns of a delivery by DUPLICATE_SEQUENCE_NUMBER may not know where the record is.
        elif told.offset >= 0 and told.offset not in offsets:
            verdict.flaw("misplaced", f"{name} is at {offsets}, and was said to be at {told.offset}")
    elif offsets and told.outcome in _NEVER_STORED:
        verdict.flaw(f"{told.outcome}, but stored", f"{name} at offset {offsets[0]}: {told.error}")
    elif offsets:
        verdict.stored_unknown += 1


def _judge_findings(verdict: Verdict, place: Place, ledger: Ledger, log: Iterable[Stored]) -> None:
    """What was found out about unknown outcomes must be what the log says."""
    findings = {number: finding for (at, number), finding in ledger.findings.items() if at == place}
    if not findings:
        return
    last = last_delivered(ledger, place)
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for offset, sequence in log:
        if sequence in findings:
            offsets[sequence].append(offset)
    for sequence, finding in findings.items():
        _judge_finding(verdict, _name(place, sequence), finding, offsets[sequence], is_decided=sequence < last)


def _judge_finding(verdict: Verdict, name: str, finding: Finding, offsets: Sequence[int], *, is_decided: bool) -> None:
    if finding.found is Found.STORED and finding.offset not in offsets:
        verdict.flaw("found elsewhere", f"{name} is at {list(offsets)}, and was found at {finding.offset}")
    elif finding.found is Found.ABSENT and offsets:
        verdict.flaw("found nowhere, but stored", f"{name} is at {list(offsets)}, and was found to be in no log")
    elif finding.found is Found.OPEN and is_decided:
        verdict.flaw("not found out", f"{name}, before one that was delivered: {finding.reason}: {finding.error}")


def _name(place: Place, sequence: int) -> str:
    return f"{place.topic}-{place.partition} #{sequence}"


def _kinds(errors: Mapping[str, int]) -> Counter[str]:
    """Errors without what differs from record to record: numbers and addresses."""
    kinds: Counter[str] = Counter()
    for error, count in errors.items():
        kinds[re.sub(r"[0-9]+([.:][0-9]+)*", "N", error)] += count
    return kinds
