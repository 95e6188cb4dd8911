"""The error table as a producer reads it."""

from __future__ import annotations

import pytest

from aioprod.errors import ErrorCode, NotSentError, RejectedError, UnknownOutcomeError
from aioprod.producer.batching.retry import AMBIGUOUS, Verdict, failure_family, judge
from tests.support.accumulators import Harness

RETRIES = 3


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NONE, Verdict.DELIVERED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Verdict.DELIVERED),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.RETRY),
        (ErrorCode.CORRUPT_MESSAGE, Verdict.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.FAIL),
        (ErrorCode.INVALID_RECORD, Verdict.FAIL),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.FAIL),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.FAIL),
        (9999, Verdict.FAIL),
    ],
)
def test_verdicts_for_a_batch_of_one(code: ErrorCode | int, verdict: Verdict) -> None:
    harness = Harness()
    harness.lead({0: 1})
    assert judge(harness.batch(), code, RETRIES, None) is verdict


def test_a_batch_of_several_that_is_too_large_is_split() -> None:
    harness = Harness()
    harness.lead({0: 1})
    harness.batch()
    assert judge(harness.batch(), ErrorCode.MESSAGE_TOO_LARGE, 0, None) is Verdict.SPLIT


def test_retries_run_out() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    batch.attempts = RETRIES
    assert judge(batch, ErrorCode.REQUEST_TIMED_OUT, RETRIES, None) is Verdict.RETRY
    batch.attempts = RETRIES + 1
    assert judge(batch, ErrorCode.REQUEST_TIMED_OUT, RETRIES, None) is Verdict.FAIL


def test_families() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    assert failure_family(batch) is NotSentError
    batch.code = ErrorCode.NOT_ENOUGH_REPLICAS
    assert failure_family(batch) is RejectedError
    batch.unanswered = True
    assert failure_family(batch) is UnknownOutcomeError
    batch.unanswered = False
    batch.maybe_stored = True
    assert failure_family(batch) is UnknownOutcomeError


def test_what_a_leader_may_say_after_it_has_appended() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in AMBIGUOUS
    assert ErrorCode.NOT_ENOUGH_REPLICAS not in AMBIGUOUS, "it is said before the append"
