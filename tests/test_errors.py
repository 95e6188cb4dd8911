"""Errors: what they say, and that they can be copied and pickled whatever their fields."""

from __future__ import annotations

import pickle

import pytest

from aioprod import errors
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    DeliveryError,
    ErrorCode,
    FlushTimeoutError,
    GroupFailuresError,
    TopicFailuresError,
    UnknownOutcomeError,
)

SAMPLES: list[AioprodError] = [
    AioprodError("It broke.", hint="Mend it."),
    BrokerError("No.", code=ErrorCode.INVALID_RECORD),
    FlushTimeoutError("3 left.", remaining=3),
    AuthorizationError("Not allowed.", resource="orders"),
    TopicFailuresError("One of two.", failures={}),
    GroupFailuresError("One of two.", failures={}),
    BrokerConnectionError("Gone.", address="host:9092"),
    UnknownOutcomeError(
        "Lost.", topic="t", partition=1, attempts=2, broker=3, age_s=4.5, code=ErrorCode.REQUEST_TIMED_OUT, hint="Look."
    ),
]


def test_the_hint_is_said_too() -> None:
    assert str(SAMPLES[0]) == "It broke. Hint: Mend it."
    assert str(AioprodError("It broke.")) == "It broke."


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_copies_and_pickles_say_the_same(error: AioprodError) -> None:
    error.__cause__ = ValueError("why")
    again = error.again()
    assert again is not error
    assert again.__cause__ is error.__cause__
    for copied in (again, pickle.loads(pickle.dumps(error))):
        assert type(copied) is type(error)
        assert copied.__dict__ == error.__dict__
        assert str(copied) == str(error)
        assert copied.args == error.args


def test_whether_it_may_be_stored_is_said_by_every_error() -> None:
    kinds = {name: getattr(errors, name) for name in errors.__all__ if name != "ErrorCode"}
    assert {name for name, kind in kinds.items() if kind.may_be_stored} == {
        "FlushTimeoutError",
        "StillUnknownError",
        "TransactionUnknownError",
        "UndeliveredRowsError",
        "UnknownOutcomeError",
    }
    assert all(kind.may_be_stored in (True, False) for kind in kinds.values())
    commit = BrokerError("Refused.", code=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert commit.may_be_stored is False
    commit.may_be_stored = True
    for copied in (commit.again(), pickle.loads(pickle.dumps(commit))):
        assert copied.may_be_stored is True
    assert BrokerError("Another.", code=1).may_be_stored is False


def test_every_error_of_the_module_is_one_of_ours() -> None:
    named = [getattr(errors, name) for name in errors.__all__ if name != "ErrorCode"]
    assert all(issubclass(kind, AioprodError) for kind in named)
    families = {kind for kind in named if issubclass(kind, DeliveryError)} - {DeliveryError}
    assert {kind.__name__ for kind in families} == {"NotSentError", "UnknownOutcomeError", "RejectedError"}
