"""The table of transactional states is whole, and leads where it says."""

from __future__ import annotations

from itertools import product

import pytest

from aioprod._error_codes import ErrorCode
from aioprod.producer.transactions.codes import Meaning, Step, meaning_of
from aioprod.producer.transactions.states import (
    CALLS,
    FORBIDDEN,
    TRANSITIONS,
    TransactionEvent,
    TransactionState,
    diagram,
)

S = TransactionState
E = TransactionEvent

NEVER = {
    # Nothing is asked or on the wire that could end this way.
    E.INITIALIZED: set(S) - {S.INITIALIZING},
    E.NOT_INITIALIZED: set(S) - {S.INITIALIZING},
    E.FLUSHED: set(S) - {S.FLUSHING},
    E.WITHDRAWN: set(S) - {S.FLUSHING},
    E.ENDED: set(S) - {S.COMMITTING, S.ABORTING},
    E.RETURNED: set(S) - {S.COMMITTED},
    # Outside of a transaction there is no record.
    E.FAILED: {S.UNINITIALIZED, S.INITIALIZING, S.READY, S.COMMITTED},
    E.BROKEN: set(),
}
"""What can't happen in which states: the runner never asks for it there."""


@pytest.mark.parametrize(("state", "event"), list(product(S, E)), ids=lambda value: value.name)
def test_every_event_in_every_state_is_decided(state: TransactionState, event: TransactionEvent) -> None:
    leads_on = (state, event) in TRANSITIONS
    is_refused = (state, event) in FORBIDDEN
    never_happens = event not in CALLS and state in NEVER[event]
    assert [leads_on, is_refused, never_happens].count(True) == 1


def test_errors_are_of_calls_and_say_what_to_do() -> None:
    assert {event for _, event in FORBIDDEN} <= set(CALLS)
    for refusal in FORBIDDEN.values():
        assert not refusal.reason.endswith(".")
        assert refusal.hint.endswith(".")


def test_every_state_can_be_reached_and_only_one_can_not_be_left() -> None:
    reached = {S.UNINITIALIZED}
    while more := {target for (state, _), target in TRANSITIONS.items() if state in reached} - reached:
        reached |= more
    assert reached == set(S)
    stuck = {state for state in S if {t for (s, _), t in TRANSITIONS.items() if s is state} <= {state}}
    assert stuck == {S.FATAL_ERROR}


def test_records_are_taken_within_a_transaction_only() -> None:
    assert [state for state, event in TRANSITIONS if event is E.SEND] == [S.IN_TRANSACTION]
    assert [state for state, event in TRANSITIONS if event is E.SEND_OFFSETS] == [S.IN_TRANSACTION]


def test_nothing_is_committed_but_by_a_commit() -> None:
    """Whatever fails before the coordinator has committed can never lead there."""
    into = {state for (state, _), target in TRANSITIONS.items() if target is S.COMMITTED} - {S.COMMITTED}
    assert into == {S.COMMITTING}
    ways = {way for way, target in TRANSITIONS.items() if target is S.COMMITTING}
    assert ways == {(S.FLUSHING, E.FLUSHED), (S.COMMITTING, E.COMMIT)}


def test_the_diagram_shows_every_transition() -> None:
    text = diagram()
    for (state, event), target in TRANSITIONS.items():
        if event is not E.BROKEN and target is not S.FATAL_ERROR:
            arrow = f"    {state.name} --> {target.name}: "
            assert [event.value in line for line in text.splitlines() if line.startswith(arrow)] == [True]


# --- codes


FATAL = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
)


@pytest.mark.parametrize("step", Step)
def test_what_holds_for_every_request(step: Step) -> None:
    assert meaning_of(step, ErrorCode.NONE) is Meaning.DONE
    assert meaning_of(step, ErrorCode.CONCURRENT_TRANSACTIONS) is Meaning.WAIT
    for code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
        assert meaning_of(step, code) is Meaning.FENCED
    for code in FATAL:
        timed_out = step is Step.COMMIT and code == ErrorCode.INVALID_TXN_STATE
        assert meaning_of(step, code) is (Meaning.FENCED if timed_out else Meaning.BROKEN)
    for code in ErrorCode:
        if code.retriable and code != ErrorCode.CONCURRENT_TRANSACTIONS:
            assert meaning_of(step, code) is Meaning.AGAIN


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, 29_999])
def test_an_unknown_code_ends_the_producer_or_the_transaction(code: ErrorCode | int) -> None:
    safe = {Step.ADD_PARTITIONS, Step.ADD_OFFSETS, Step.COMMIT_OFFSETS}
    for step in Step:
        assert meaning_of(step, code) is (Meaning.FAILED if step in safe else Meaning.BROKEN)


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Step.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (Step.ADD_PARTITIONS, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (Step.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (Step.COMMIT_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (Step.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION),
        (Step.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID),
        (Step.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID),
        (Step.COMMIT_OFFSETS, ErrorCode.GROUP_ID_NOT_FOUND),
        (Step.COMMIT_OFFSETS, ErrorCode.STALE_MEMBER_EPOCH),
        (Step.COMMIT, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_what_fails_the_transaction_only(step: Step, code: ErrorCode) -> None:
    assert meaning_of(step, code) is Meaning.FAILED


def test_what_can_not_be_aborted_is_the_end() -> None:
    assert meaning_of(Step.ABORT, ErrorCode.TRANSACTION_ABORTABLE) is Meaning.BROKEN
