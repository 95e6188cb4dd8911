"""Whether a run kept what was promised: the log against what the senders were told."""

from __future__ import annotations

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
from simulation.ledger import Entry, Ledger, Log
from simulation.plan import Plan

__all__ = ["Evidence", "check"]

HAS_SEQUENCES = find_spec("aioprod.core.sequences") is not None
HEALED = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""What a producer with idempotence goes on after, in a new epoch."""
LATE_S = 1.5
"""How much later than its deadline a record may be told of its outcome."""


@dataclass
class Evidence:
    """What is left of a run.

    `committed` is what readers with read_committed see of the log, `report` that of the close, `bumps` how often an
    epoch had to be given up, `codes` are the errors that brokers were made to answer.
    """

    log: Log
    committed: Log
    report: DeliveryReport | None
    bumps: int
    codes: set[ErrorCode]


def check(plan: Plan, ledger: Ledger, evidence: Evidence) -> list[str]:
    """Everything that is wrong, in sentences; nothing if all is well."""
    log, report = evidence.log, evidence.report
    problems = list(ledger.problems)
    stored = Counter(number for numbers in log.values() for number in numbers.values())
    for entry in ledger.entries:
        problems += (f"Record {entry.number}: {problem}" for problem in _outcome(plan, entry, log, stored))
    if plan.idempotent and HAS_SEQUENCES:
        problems += _duplicates(log)
        problems += _burned(plan, ledger, evidence)
    if plan.transaction_version:
        problems += _transactions(plan, ledger, evidence)
    problems += _given_up(plan, ledger, evidence.codes)
    if plan.ordered:
        problems += _order(plan, ledger, log)
    if report is not None:
        problems += _counts(plan, ledger, report, stored)
    return problems


def _outcome(plan: Plan, entry: Entry, log: Log, stored: Counter[int]) -> Iterable[str]:
    """What is wrong with one record."""
    if entry.refused is not None:
        if entry.told:
            yield f"it was refused ({entry.refused!r}) and then told {entry.told} times."
        if stored[entry.number] and not entry.maybe_accepted:
            yield f"it is in the log, but was refused: {entry.refused!r}."
        if isinstance(entry.refused, DeliveryError):
            yield f"it was refused with an outcome: {entry.refused!r}."
        return
    if entry.withdrawn and stored[entry.number]:
        yield "it was withdrawn, and is in the log."
    expects_told = not entry.abandoned and entry.style != "forget"
    if entry.told != expects_told:
        yield f"it was told {entry.told} times what became of it ({entry.metadata!r}, {entry.error!r})."
    if len(entry.reported) > 1 or (entry.reported and expects_told):
        yield f"on_error was called {len(entry.reported)} times for it, and it was told {entry.told} times."
    error = entry.final_error
    if entry.outcome == "none":
        yield f"it ended with {error!r}, which is none of the three outcomes."
    if isinstance(error, (NotSentError, RejectedError)) and stored[entry.number]:
        yield f"it is in the log, and was said not to be: {error!r}."
    if error is None and _was_delivered(plan, entry):
        yield from _delivered(plan, entry, log, stored)
    if entry.told and (late_s := entry.told_s - entry.begun_s - plan.delivery_timeout_s) > LATE_S + _wait_s(
        plan, entry
    ):
        yield f"it was told {late_s:.1f} s after its deadline."


def _was_delivered(plan: Plan, entry: Entry) -> bool:
    """Whether no news is good news."""
    if entry.told:
        return True
    return entry.style == "forget" and plan.heard and not entry.abandoned


def _wait_s(plan: Plan, entry: Entry) -> float:
    """How long a record may have waited before its delivery time began."""
    return int(plan.options["max_block_ms"]) / 1000 if entry.style in ("send", "many") or not plan.roomy else 0.0


def _delivered(plan: Plan, entry: Entry, log: Log, stored: Counter[int]) -> Iterable[str]:
    """What is wrong with a record that was delivered."""
    if plan.options["acks"] == "0" or entry.lost:
        return
    if not stored[entry.number]:
        yield f"it was delivered ({entry.metadata!r}), and is in no log."
        return
    if entry.metadata is not None:
        partition, offsets = entry.metadata.partition, frozenset([entry.metadata.offset]) - {-1}
        told = {partition: offsets} if offsets else {}
    else:
        told = dict(entry.somewhere or {})
    if told and not any(
        numbers.get(offset) == entry.number
        for (name, _, partition), numbers in log.items()
        if name == entry.topic
        for offset in told.get(partition, ())
    ):
        yield f"it was delivered as {entry.metadata or told!r}, where another record is."


def _given_up(plan: Plan, ledger: Ledger, codes: set[ErrorCode]) -> Iterable[str]:
    """Records that failed though there was time left, and nothing that brokers said was final."""
    if plan.transaction_version or "recreate" in plan.faults or plan.options["retries"] < 2**31 - 1:
        return
    final = {code for code in codes if not code.retriable} - set(HEALED)
    final |= {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
    for entry in ledger.entries:
        error = entry.final_error
        if not isinstance(error, DeliveryError) or entry.told_s >= ledger.closing_s:
            continue
        if (
            "delivery.timeout.ms" not in error.message
            and error.code not in final
            # Brokers that say again and again that there is no such topic are believed.
            and not isinstance(error.__cause__, (MetadataTimeoutError, UnknownTopicError))
        ):
            yield f"Record {entry.number} was given up before its time: {error!r}."


def _burned(plan: Plan, ledger: Ledger, evidence: Evidence) -> Iterable[str]:
    """Sequence numbers that were used up for nothing: brokers find a hole where nothing that was sent has failed."""
    has_refused = any(not code.retriable for code in evidence.codes)
    if plan.transaction_version or "recreate" in plan.faults or has_refused or not plan.heard:
        return
    failed = any(
        entry.abandoned or isinstance(entry.final_error, (UnknownOutcomeError, RejectedError))
        for entry in ledger.entries
    )
    if evidence.bumps and not failed:
        yield f"{evidence.bumps} epochs were given up, and no record that was sent has failed."


def _transactions(plan: Plan, ledger: Ledger, evidence: Evidence) -> Iterable[str]:
    """Each transaction is seen as a whole, or not at all; which of them, where its sender was told."""
    seen = Counter(number for numbers in evidence.committed.values() for number in numbers.values())
    for entry in ledger.entries:
        if entry.transaction is None and seen[entry.number] and entry.accepted is not None:
            yield f"Record {entry.number} is seen, and belongs to no transaction."
    for transaction in ledger.transactions:
        if transaction.overtaken:
            continue
        mine = [e for e in ledger.entries if e.transaction == transaction.number and e.refused is None]
        sure = [e.number for e in mine if not e.abandoned and e.final_error is None]
        visible = [e.number for e in mine if seen[e.number]]
        missing = sorted(set(sure) - set(visible))
        if visible and (missing or transaction.outcome == "aborted" or not transaction.asked):
            how = transaction.outcome or "unknown"
            yield f"Transaction {transaction.number} ({how}) is seen in part: {visible} are, {missing} are not."
        if transaction.outcome == "committed" and missing:
            yield f"Transaction {transaction.number} was committed, and {missing} are not seen."
        if transaction.outcome == "committed" and (failed := [e.number for e in mine if e.final_error is not None]):
            yield f"Transaction {transaction.number} was committed, and {failed} had failed."
    if ledger.fenced and not plan.may_be_fenced and ErrorCode.INVALID_PRODUCER_EPOCH not in evidence.codes:
        yield f"Nobody took over, and the producer was fenced: {ledger.fenced[0]!r}."


def _duplicates(log: Log) -> Iterable[str]:
    """Records that are stored twice in one topic; a topic that was created again is another one."""
    found: Counter[tuple[str, int, int]] = Counter()
    for (name, which, _), numbers in log.items():
        found.update((name, which, number) for number in numbers.values())
    for (name, _, number), times in found.items():
        if times > 1:
            yield f"Record {number} is stored {times} times in {name}."


def _order(plan: Plan, ledger: Ledger, log: Log) -> Iterable[str]:
    """Records that are in front of others that were accepted before."""
    for (topic, _, partition), numbers in log.items():
        latest = -1
        latest_number = -1
        for number in dict.fromkeys(numbers.values()):
            entry = ledger.entries[number]
            if plan.near_the_end and isinstance(entry.final_error, UnknownOutcomeError):
                # A batch that was given up may still come, and nothing tells brokers that a newer id has taken over.
                continue
            if not (plan.idempotent and HAS_SEQUENCES) and (not entry.told or entry.error is not None):
                continue
            if entry.accepted is not None and entry.accepted < latest:
                yield f"Record {number} of {topic}-{partition} is behind {latest_number}, which was accepted later."
            if entry.begun > latest:
                latest, latest_number = entry.begun, number


def _counts(plan: Plan, ledger: Ledger, report: DeliveryReport, stored: Counter[int]) -> Iterable[str]:
    """The report of the close against what was told: exact where no sender was cancelled."""
    sure = [e for e in ledger.entries if e.refused is None and not e.abandoned]
    outcomes = Counter(entry.outcome for entry in sure)
    unheard = sum(entry.style == "forget" for entry in sure) if not plan.heard else 0
    abandoned = [e for e in ledger.entries if e.abandoned or (e.refused is not None and e.maybe_accepted)]
    told = Counter(
        {
            "delivered": outcomes["delivered"] - unheard,
            "not_sent": outcomes["NotSentError"],
            "unknown": outcomes["UnknownOutcomeError"],
            "rejected": outcomes["RejectedError"],
        }
    )
    slack = unheard + len(abandoned)
    for what, count in told.items():
        said = getattr(report, what)
        if not count <= said <= count + slack:
            yield f"The report says {what}={said}, its senders heard it {count} times (and {slack} may not have)."
    if (
        plan.heard
        and plan.options["acks"] != "0"
        and not any(entry.lost or (entry.maybe_accepted and entry.style == "many") for entry in abandoned)
    ):
        yield from _abandoned(abandoned, report, sum(told.values()), stored)


def _abandoned(abandoned: list[Entry], report: DeliveryReport, told: int, stored: Counter[int]) -> Iterable[str]:
    """Of those whose senders went away: what is in the report and did not fail is in the log, and nothing else."""
    total = report.delivered + report.not_sent + report.unknown + report.rejected
    failed = sum(bool(entry.reported) for entry in abandoned)
    delivered = total - told - failed
    found = sum(bool(stored[entry.number]) and not entry.reported for entry in abandoned)
    if delivered != found:
        yield f"{found} records of cancelled senders are in the log without an error, and {delivered} were delivered."
