"""Each promise, broken on paper: the checker has to notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioprod import RecordMetadata
from aioprod.errors import ErrorCode, NotSentError, ProducerFencedError, RejectedError, UnknownOutcomeError
from aioprod.types import DeliveryReport
from tests.simulation.checker import LATE_S, Evidence, check
from tests.simulation.ledger import Ledger, Log
from tests.simulation.plan import Plan

PLACE = ("t", 0, 0)
FORGOTTEN = [(UnknownOutcomeError, 0.0, False), (UnknownOutcomeError, 1.0, True), (RejectedError, 0.0, True)]


def plan(**changes: object) -> Plan:
    """A producer with idempotence and nothing unusual."""
    drawn = Plan.draw(0)
    drawn.options |= {"acks": "all", "enable_idempotence": True, "retries": 2**31 - 1, "buffer_memory": 32_000_000}
    drawn.options["resolve_unknown_outcomes"] = False
    drawn.faults, drawn.has_on_error, drawn.transaction_version, drawn.near_the_end = (), True, 0, False
    for name, value in changes.items():
        setattr(drawn, name, value)
    return drawn


def evidence(*numbers: int, committed: tuple[int, ...] = (), bumps: int = 0) -> Evidence:
    """A log of one partition."""
    log: Log = {PLACE: dict(enumerate(numbers))}
    return Evidence(log, {PLACE: dict(enumerate(committed))}, None, bumps, set())


def sent(ledger: Ledger, count: int) -> None:
    """Records that were accepted one after the other."""
    for _ in range(count):
        ledger.accept(ledger.begin("t", 0, "callback"))


def delivered(ledger: Ledger, number: int, offset: int) -> None:
    ledger.complete(ledger.entries[number], RecordMetadata("t", 0, offset, 0), None)


def failed(ledger: Ledger, number: int, kind: type[NotSentError | UnknownOutcomeError | RejectedError]) -> None:
    message = "delivery.timeout.ms has passed."
    ledger.complete(ledger.entries[number], None, kind(message, topic="t", partition=0))


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(lambda: 0.0)
    sent(ledger, 2)
    return ledger


def problems(ledger: Ledger, found: Evidence, **changes: object) -> str:
    return "\n".join(check(plan(**changes), ledger, found))


def test_nothing_is_wrong(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    failed(ledger, 1, UnknownOutcomeError)
    assert problems(ledger, evidence(0)) == problems(ledger, evidence(0, 1)) == ""


def test_an_acknowledged_record_is_lost(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    delivered(ledger, 1, 1)
    assert "Record 1: it was delivered" in problems(ledger, evidence(0))


def test_an_offset_is_wrong(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    delivered(ledger, 1, 0)
    assert "where another record is" in problems(ledger, evidence(0, 1))


@pytest.mark.parametrize("kind", [NotSentError, RejectedError])
def test_a_record_with_an_error_of_not_being_stored_is_stored(
    ledger: Ledger, kind: type[NotSentError | RejectedError]
) -> None:
    delivered(ledger, 0, 0)
    failed(ledger, 1, kind)
    assert "its error says that it is not" in problems(ledger, evidence(0, 1))


def test_a_duplicate(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    delivered(ledger, 1, 1)
    assert "Record 0 is stored 2 times in t" in problems(ledger, evidence(0, 1, 0))


def test_records_in_another_order(ledger: Ledger) -> None:
    delivered(ledger, 0, 1)
    delivered(ledger, 1, 0)
    assert "Record 0 of t-0 is behind 1" in problems(ledger, evidence(1, 0))


def without_outcome(ledger: Ledger) -> None:
    """Record 1 gets no outcome."""


def two_outcomes(ledger: Ledger) -> None:
    delivered(ledger, 1, 1)
    delivered(ledger, 1, 1)


def error_and_outcome(ledger: Ledger) -> None:
    delivered(ledger, 1, 1)
    ledger.reject(ledger.entries[1], ValueError())


def late_outcome(ledger: Ledger) -> None:
    delivered(ledger, 1, 1)
    ledger.entries[1].completed_s = 10_000.0


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (without_outcome, "it got 0 outcomes"),
        (two_outcomes, "it got 2 outcomes"),
        (error_and_outcome, "and it got 1 outcomes"),
        (late_outcome, "after its deadline"),
    ],
)
def test_a_record_does_not_get_one_outcome_in_time(ledger: Ledger, end: Callable[[Ledger], None], problem: str) -> None:
    delivered(ledger, 0, 0)
    end(ledger)
    assert problem in problems(ledger, evidence(0, 1))


def test_the_time_of_a_record_begins_with_the_call_that_accepts_it() -> None:
    """Calls before that raised BufferFullError, each after `drain()`."""
    now = 0.0
    ledger = Ledger(lambda: now)
    entry = ledger.begin("t", 0, "callback")
    drawn = plan()
    drawn.options |= {"buffer_memory": 6000}
    now = 1000.0
    ledger.call(entry)
    ledger.accept(entry)
    now += drawn.delivery_timeout_s + LATE_S
    delivered(ledger, 0, 0)
    assert check(drawn, ledger, evidence(0)) == []
    now += 0.1
    entry.completed_s = now
    assert "it got its outcome 1.6 s after its deadline" in "\n".join(check(drawn, ledger, evidence(0)))


def test_a_withdrawn_record_is_stored(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    ledger.entries[1].cancelled = ledger.entries[1].withdrawn = True
    assert "it was withdrawn, and is in the log" in problems(ledger, evidence(0, 1))


def test_a_record_fails_too_early(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    error = RejectedError("Why not.", topic="t", partition=0, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    ledger.complete(ledger.entries[1], None, error)
    assert "failed before its deadline" in problems(ledger, evidence(0))


@pytest.mark.parametrize(("kind", "forgotten_s", "is_wrong"), FORGOTTEN)
def test_a_record_may_fail_early_where_leaders_forgot_the_producer(
    ledger: Ledger, kind: type[UnknownOutcomeError | RejectedError], forgotten_s: float, is_wrong: bool
) -> None:
    """They may have stored the batch, and take its retry for one behind a gap."""
    delivered(ledger, 0, 0)
    error = kind("Why not.", topic="t", partition=0, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    ledger.complete(ledger.entries[1], None, error)
    ledger.forgotten_s = forgotten_s
    assert ("failed before its deadline" in problems(ledger, evidence(0))) == is_wrong


@pytest.mark.parametrize("itself", [False, True])
def test_a_producer_is_fenced(itself: bool) -> None:
    ledger = Ledger(lambda: 0.0)
    ledger.fenced.append(ProducerFencedError("Fenced."))
    ledger.fenced_itself = itself
    drawn = plan(transaction_version=1)
    drawn.options |= {"transaction_timeout_ms": 900_000}
    found = "\n".join(check(drawn, ledger, evidence()))
    assert ("fenced without another producer" in found) != itself


def test_an_epoch_bump_without_a_failed_record(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    failed(ledger, 1, NotSentError)
    assert "There were 1 epoch bumps" in problems(ledger, evidence(0, bumps=1))


def test_the_report_does_not_add_up(ledger: Ledger) -> None:
    delivered(ledger, 0, 0)
    delivered(ledger, 1, 1)
    found = evidence(0, 1)
    found.report = DeliveryReport(delivered=1, unknown=1)
    assert "The report has delivered=1" in problems(ledger, found)


@pytest.mark.parametrize(
    ("outcome", "commit_called", "committed", "problem"),
    [
        ("committed", True, (0, 1), ""),
        ("aborted", False, (), ""),
        ("", True, (), ""),
        ("committed", True, (), "was committed, and [0, 1] are not seen"),
        ("aborted", True, (0, 1), "is seen in part"),
        ("", True, (0,), "is seen in part"),
        ("", False, (0, 1), "is seen in part"),
    ],
)
def test_transactions(outcome: str, commit_called: bool, committed: tuple[int, ...], problem: str) -> None:
    ledger = Ledger(lambda: 0.0)
    transaction = ledger.begin_transaction()
    sent(ledger, 2)
    ledger.end_transaction()
    for number in range(2):
        delivered(ledger, number, number)
    transaction.outcome, transaction.commit_called = outcome, commit_called
    found = problems(ledger, evidence(0, 1, committed=committed), transaction_version=2)
    assert problem in found
    assert bool(problem) == bool(found)
