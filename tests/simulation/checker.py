"""`check`: compares the logs with the outcomes that the senders got, and returns each broken guarantee."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec

from aioprod.errors import (
    DeliveryError,
    ErrorCode,
    MetadataTimeoutError,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
    UnknownTopicError,
)
from aioprod.types import DeliveryReport
from tests.simulation.ledger import Entry, Ledger, Log
from tests.simulation.plan import Plan

__all__ = ["Evidence", "check"]

HAS_SEQUENCES = find_spec("aioprod.producer.batching.sequences") is not None
_BATCHES_REMEMBERED = 5
"""The batches of a producer that a broker recognizes."""
_USED_UP = "producer id of its first attempt is used up"
HEALED = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""Errors after which an idempotent producer continues in a new epoch."""
LATE_S = 1.5
"""How much later than its deadline a record may get its outcome, in seconds."""


@dataclass
class Evidence:
    """What is checked after a run.

    `committed` is the part of the log that a read_committed consumer sees, `report` that of `close()`, `bumps` the
    number of epoch bumps, and `codes` are the injected errors.
    """

    log: Log
    committed: Log
    report: DeliveryReport | None
    bumps: int
    codes: set[ErrorCode]


def check(plan: Plan, ledger: Ledger, evidence: Evidence) -> list[str]:
    """All broken guarantees, as sentences."""
    log, report = evidence.log, evidence.report
    problems = list(ledger.problems)
    stored = Counter(number for numbers in log.values() for number in numbers.values())
    for entry in ledger.entries:
        problems += (f"Record {entry.number}: {problem}" for problem in _outcome(plan, entry, log, stored))
        problems += (f"Record {entry.number}: {problem}" for problem in _resolved(entry, evidence.committed))
    if plan.idempotent and HAS_SEQUENCES:
        problems += _duplicates(log)
        problems += _needless_bumps(plan, ledger, evidence)
    if plan.transaction_version:
        problems += _transactions(plan, ledger, evidence)
    problems += _failed_early(plan, ledger, evidence)
    if plan.ordered:
        problems += _inject(plan, ledger, log)
    if report is not None:
        problems += _counts(plan, ledger, report, stored)
    return problems


def _outcome(plan: Plan, entry: Entry, log: Log, stored: Counter[int]) -> Iterable[str]:
    """Broken guarantees of one record."""
    if entry.send_error is not None:
        if entry.completions:
            yield f"its call raised {entry.send_error!r}, and it got {entry.completions} outcomes."
        if stored[entry.number] and not entry.maybe_accepted:
            yield f"it is in the log, but its call raised {entry.send_error!r}."
        if isinstance(entry.send_error, DeliveryError):
            yield f"its call raised the error of an outcome: {entry.send_error!r}."
        return
    if entry.withdrawn and stored[entry.number]:
        yield "it was withdrawn, and is in the log."
    expects_outcome = not entry.cancelled and entry.style != "forget"
    if entry.completions != expects_outcome:
        yield f"it got {entry.completions} outcomes ({entry.metadata!r}, {entry.error!r})."
    if len(entry.reported) > 1 or (entry.reported and expects_outcome):
        yield f"on_error was called {len(entry.reported)} times for it, and it got {entry.completions} outcomes."
    error = entry.final_error
    if entry.outcome == "none":
        yield f"it ended with {error!r}, which is none of the three outcomes."
    if isinstance(error, (NotSentError, RejectedError)) and stored[entry.number]:
        yield f"it is in the log, but its error says that it is not: {error!r}."
    if error is None and _was_delivered(plan, entry):
        yield from _delivered(plan, entry, log, stored)
    if entry.completions and (late_s := entry.completed_s - entry.begun_s - plan.delivery_timeout_s) > LATE_S + _wait_s(
        plan, entry
    ):
        yield f"it got its outcome {late_s:.1f} s after its deadline."


def _resolved(entry: Entry, committed: Log) -> Iterable[str]:
    """Whether what `Producer.resolve` said is what the log says."""
    if entry.resolved is None or entry.lost:
        return
    places = {
        (partition, offset)
        for (name, _, partition), numbers in committed.items()
        if name == entry.topic
        for offset, number in numbers.items()
        if number == entry.number
    }
    if isinstance(entry.resolved, bool):
        if places:
            yield f"it was said to be in no log, and is at {places}."
    elif (entry.resolved.partition, entry.resolved.offset) not in places:
        yield f"it was said to be at {entry.resolved!r}, and is at {places or 'no place'}."


def _was_delivered(plan: Plan, entry: Entry) -> bool:
    """Whether a record without an error was delivered: its sender got the outcome, or would have got the error."""
    if entry.completions:
        return True
    return entry.style == "forget" and plan.has_on_error and not entry.cancelled


def _wait_s(plan: Plan, entry: Entry) -> float:
    """How long a call may wait before the delivery timeout of its record begins, in seconds."""
    if entry.style == "many" and not plan.has_memory:
        return math.inf  # Each record may wait for memory, and the call returns with the last one.
    return int(plan.options["max_block_ms"]) / 1000 if entry.style in ("send", "many") else 0.0


def _delivered(plan: Plan, entry: Entry, log: Log, stored: Counter[int]) -> Iterable[str]:
    """Broken guarantees of a delivered record."""
    if plan.options["acks"] == "0" or entry.lost:
        return
    if not stored[entry.number]:
        yield f"it was delivered ({entry.metadata!r}), and is in no log."
        return
    if entry.metadata is not None:
        partition, offsets = entry.metadata.partition, frozenset([entry.metadata.offset]) - {-1}
        offsets_of = {partition: offsets} if offsets else {}
    else:
        offsets_of = dict(entry.offsets or {})
    if offsets_of and not any(
        numbers.get(offset) == entry.number
        for (name, _, partition), numbers in log.items()
        if name == entry.topic
        for offset in offsets_of.get(partition, ())
    ):
        yield f"it was delivered as {entry.metadata or offsets_of!r}, where another record is."


def _failed_early(plan: Plan, ledger: Ledger, evidence: Evidence) -> Iterable[str]:
    """Records that failed before their delivery timeout without a non-retriable error."""
    if plan.transaction_version or "recreate" in plan.faults or plan.options["retries"] < 2**31 - 1:
        return
    final = {code for code in evidence.codes if not code.retriable} - set(HEALED)
    final |= {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
    for entry in ledger.entries:
        error = entry.final_error
        if not isinstance(error, DeliveryError) or entry.completed_s >= ledger.closing_s:
            continue
        if (
            "delivery.timeout.ms" not in error.message
            and error.code not in final
            and not _may_be_forgotten(ledger, entry, error)
            and not _was_overtaken(evidence.log, entry, error)
            and not (plan.near_the_end and isinstance(error, UnknownOutcomeError) and _USED_UP in error.message)
            # A topic that brokers report as missing again and again fails its records early.
            and not isinstance(error.__cause__, (MetadataTimeoutError, UnknownTopicError))
        ):
            yield f"Record {entry.number} failed before its deadline: {error!r}."


def _may_be_forgotten(ledger: Ledger, entry: Entry, error: DeliveryError) -> bool:
    """Whether a leader has lost what it knew of the producer, and may have stored a batch that it takes for another."""
    return isinstance(error, UnknownOutcomeError) and error.code in HEALED and entry.begun_s >= ledger.forgotten_s


def _was_overtaken(log: Log, entry: Entry, error: DeliveryError) -> bool:
    """Whether the record is stored, and so many batches after it that its leader does not recognize a retry.

    That takes a former leader that stores it and does not answer, while the next one stores those after it.
    """
    if not isinstance(error, UnknownOutcomeError) or error.code not in HEALED:
        return False
    places = [
        (numbers, offset) for numbers in log.values() for offset, number in numbers.items() if number == entry.number
    ]
    return any(sum(later > offset for later in numbers) >= _BATCHES_REMEMBERED for numbers, offset in places)


def _needless_bumps(plan: Plan, ledger: Ledger, evidence: Evidence) -> Iterable[str]:
    """Epoch bumps although no record that was sent has failed: the producer left a sequence gap."""
    has_final_error = any(not code.retriable for code in evidence.codes)
    if plan.transaction_version or "recreate" in plan.faults or has_final_error or not plan.has_on_error:
        return
    failed = any(
        entry.cancelled or entry.maybe_accepted or isinstance(entry.final_error, (UnknownOutcomeError, RejectedError))
        for entry in ledger.entries
    )
    # Where outcomes are found out, some of those whose batches were given up are delivered in the end.
    if evidence.bumps and not failed and not plan.resolves:
        yield f"There were {evidence.bumps} epoch bumps, and no record that was sent has failed."


def _transactions(plan: Plan, ledger: Ledger, evidence: Evidence) -> Iterable[str]:
    """Transactions that are visible in part, or not according to the outcome that their caller got."""
    seen = Counter(number for numbers in evidence.committed.values() for number in numbers.values())
    for entry in ledger.entries:
        if entry.transaction is None and seen[entry.number] and entry.accepted is not None:
            yield f"Record {entry.number} is seen, and belongs to no transaction."
    for transaction in ledger.transactions:
        if transaction.overtaken:
            continue
        mine = [e for e in ledger.entries if e.transaction == transaction.number and e.send_error is None]
        sure = [e.number for e in mine if not e.cancelled and e.final_error is None]
        visible = [e.number for e in mine if seen[e.number]]
        missing = sorted(set(sure) - set(visible))
        if visible and (missing or transaction.outcome == "aborted" or not transaction.commit_called):
            how = transaction.outcome or "unknown"
            yield f"Transaction {transaction.number} ({how}) is seen in part: {visible} are, {missing} are not."
        if transaction.outcome == "committed" and missing:
            yield f"Transaction {transaction.number} was committed, and {missing} are not seen."
        if transaction.outcome == "committed" and (failed := [e.number for e in mine if e.final_error is not None]):
            yield f"Transaction {transaction.number} was committed, and {failed} had failed."
    was_told = ErrorCode.INVALID_PRODUCER_EPOCH in evidence.codes
    if ledger.fenced and not (was_told or ledger.fenced_itself or plan.may_be_fenced):
        yield f"The producer was fenced without another producer: {ledger.fenced[0]!r}."


def _duplicates(log: Log) -> Iterable[str]:
    """Records that are stored twice in one topic; a re-created topic is another one."""
    found: Counter[tuple[str, int, int]] = Counter()
    for (name, which, _), numbers in log.items():
        found.update((name, which, number) for number in numbers.values())
    for (name, _, number), times in found.items():
        if times > 1:
            yield f"Record {number} is stored {times} times in {name}."


def _inject(plan: Plan, ledger: Ledger, log: Log) -> Iterable[str]:
    """Records that are stored before others that were accepted earlier."""
    for (topic, _, partition), numbers in log.items():
        latest = -1
        latest_number = -1
        for number in dict.fromkeys(numbers.values()):
            entry = ledger.entries[number]
            is_unseen = entry.style == "forget" and not plan.has_on_error
            if plan.near_the_end and (is_unseen or plan.resolves or isinstance(entry.final_error, UnknownOutcomeError)):
                # A batch that expired in flight may still arrive, as the leader does not know the new producer id yet.
                continue
            if not (plan.idempotent and HAS_SEQUENCES) and (not entry.completions or entry.error is not None):
                continue
            if entry.accepted is not None and entry.accepted < latest:
                yield f"Record {number} of {topic}-{partition} is behind {latest_number}, which was accepted later."
            if entry.begun > latest:
                latest, latest_number = entry.begun, number


def _counts(plan: Plan, ledger: Ledger, report: DeliveryReport, stored: Counter[int]) -> Iterable[str]:
    """Differences between the report of `close()` and the outcomes; exact if no sender was cancelled."""
    sure = [e for e in ledger.entries if e.send_error is None and not e.cancelled]
    outcomes = Counter(entry.outcome for entry in sure)
    unseen = sum(entry.style == "forget" for entry in sure) if not plan.has_on_error else 0
    cancelled = [e for e in ledger.entries if e.cancelled or (e.send_error is not None and e.maybe_accepted)]
    reported = Counter(
        {
            "delivered": outcomes["delivered"] - unseen,
            "not_sent": outcomes["NotSentError"],
            "unknown": outcomes["UnknownOutcomeError"],
            "rejected": outcomes["RejectedError"],
        }
    )
    slack = unseen + len(cancelled)
    for what, count in reported.items():
        count_reported = getattr(report, what)
        if not count <= count_reported <= count + slack:
            yield f"The report has {what}={count_reported}, the senders got {count} (and {slack} may have got none)."
    if (
        plan.has_on_error
        and plan.options["acks"] != "0"
        and not any(entry.lost or (entry.maybe_accepted and entry.style == "many") for entry in cancelled)
    ):
        yield from _cancelled_senders(cancelled, report, sum(reported.values()), stored)


def _cancelled_senders(
    cancelled: list[Entry], report: DeliveryReport, reported: int, stored: Counter[int]
) -> Iterable[str]:
    """Differences for cancelled senders: the log has the records that the report counts as delivered, and no others."""
    total = report.delivered + report.not_sent + report.unknown + report.rejected
    failed = sum(bool(entry.reported) for entry in cancelled)
    delivered = total - reported - failed
    found = sum(bool(stored[entry.number]) and not entry.reported for entry in cancelled)
    if delivered != found:
        yield f"{found} records of cancelled senders are in the log without an error, and {delivered} were delivered."
