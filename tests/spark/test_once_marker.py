"""What the marker says of a step, and what a failed job says of itself."""

from __future__ import annotations

import pytest

from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    ConfigError,
    ProducerFencedError,
    RecordTooLargeError,
    RejectedError,
    UndeliveredRowsError,
    UsageError,
)
from aioprod.spark.transactions import failures
from aioprod.spark.transactions.failures import FinalTaskError
from aioprod.spark.transactions.marker import Action, Policy, check_owner, decide, group_of, marker_of
from aioprod.types import OffsetAndMetadata


def of(offset: int, owner: str = "me") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, owner)


@pytest.mark.parametrize(
    ("found", "step", "policy", "expected"),
    [
        (None, 0, Policy.REFUSE, Action.WRITE),
        (of(1), 0, Policy.REFUSE, Action.SKIP),
        (of(9), 0, Policy.REFUSE, Action.SKIP),
        (of(4), 4, Policy.REFUSE, Action.WRITE),
        (of(5), 4, Policy.REFUSE, Action.SKIP),
        (None, 4, Policy.ASSUME_COMMITTED, Action.MARK),
        (None, 4, Policy.ASSUME_NOT_COMMITTED, Action.WRITE),
        (of(2), 4, Policy.ASSUME_NOT_COMMITTED, Action.WRITE),
    ],
)
def test_what_is_to_be_done(found: OffsetAndMetadata | None, step: int, policy: Policy, expected: Action) -> None:
    assert decide(found, step, "me", policy, "id") is expected


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("step", [0, 3])
def test_the_marker_of_another_is_never_believed(policy: Policy, step: int) -> None:
    with pytest.raises(UsageError, match=r"to another query or run.* marker: aioprod groups delete aioprod-eos\.id$"):
        decide(of(4, "another"), step, "me", policy, "id")


def test_a_missing_marker_is_refused_unless_told_otherwise() -> None:
    with pytest.raises(UsageError, match=r"step 4 of 'id' was committed is not known.*when_marker_is_missing"):
        decide(None, 4, "me", Policy.REFUSE, "id")


@pytest.mark.parametrize("policy", [Policy.REFUSE, Policy.ASSUME_COMMITTED])
def test_a_gap_is_refused(policy: Policy) -> None:
    with pytest.raises(UsageError, match="2 is the next one, so that 2 are missing"):
        decide(of(2), 4, "me", policy, "id")


def test_what_is_committed_with_a_step() -> None:
    assert (group_of("id"), marker_of(4, "me")) == ("aioprod-eos.id", of(5))
    assert check_owner("x" * 4096)
    for owner in ("", "x" * 4097, "\N{SNOWMAN}" * 1400):
        with pytest.raises(ConfigError, match="must have 1 to 4096 bytes"):
            check_owner(owner)
    assert Policy.of("assume-committed") is Policy.ASSUME_COMMITTED
    with pytest.raises(ConfigError, match="'hope': it must be one of 'refuse'"):
        Policy.of("hope")


# -- failed jobs -----------------------------------------------------------------------------------------------------

SPARK_SAYS = """Job aborted due to stage failure: Could not recover from a failed barrier ResultStage.
  File "/x/task.py", line 86, in __call__
    raise for_the_driver(error) from error
{}
"""


def test_an_error_for_good_passes_through_sparks_text() -> None:
    cause = RecordTooLargeError("It is too large.", hint="Send less.")
    refused = UndeliveredRowsError("A row can't be delivered: it is too large.", hint="Send\nless.")
    refused.__cause__ = cause
    assert failures.is_final(refused)
    raised = failures.for_the_driver(refused)
    assert isinstance(raised, FinalTaskError)
    error, final = failures.of_job(
        RuntimeError(SPARK_SAYS.format(f"aioprod.spark.transactions.failures.FinalTaskError: {raised}"))
    )
    assert final
    assert isinstance(error, UndeliveredRowsError)
    assert (error.message, error.hint) == ("A row can't be delivered: it is too large.", "Send less.")


def test_an_error_that_may_pass() -> None:
    refused = UndeliveredRowsError("A row can't be delivered: somebody took over.")
    refused.__cause__ = ProducerFencedError("Fenced.")
    assert not failures.is_final(refused)
    error, final = failures.of_job(RuntimeError(SPARK_SAYS.format(f"aioprod.errors.UndeliveredRowsError: {refused}")))
    assert isinstance(error, UndeliveredRowsError)
    assert not final


def test_a_row_that_sql_refuses() -> None:
    said = "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] The topic of a row is null. SQLSTATE: P0001"
    error, final = failures.of_job(RuntimeError(SPARK_SAYS.format(said)))
    assert (str(error), final) == ("The topic of a row is null.", True)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("aioprod.errors.AuthorizationError: No. Hint: Ask.", AuthorizationError),
        ("aioprod.errors.RejectedError: No.", AioprodError),
        ("aioprod.errors.ErrorCode: No.", AioprodError),
        ("aioprod.spark.transactions.failures.FinalTaskError: odd", AioprodError),
    ],
)
def test_what_kind_of_error_a_text_names(line: str, kind: type[AioprodError]) -> None:
    error, _ = failures.of_job(RuntimeError(SPARK_SAYS.format(line)))
    assert type(error) is kind


def test_errors_of_others() -> None:
    assert failures.of_job(ValueError("1 / 0")) == (None, False)
    own = ConfigError("No.")
    assert failures.of_job(own) == (own, True)
    assert failures.of_job(RejectedError("No.", topic="t", partition=0))[1] is False
    assert failures.was_stopped(RuntimeError("org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled"))
    assert failures.was_stopped(RuntimeError("java.lang.InterruptedException"))
    assert failures.was_stopped(KeyboardInterrupt())
    assert not failures.was_stopped(RuntimeError("Python worker exited unexpectedly"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SPARK_SAYS.format("RuntimeError: no luck"), "RuntimeError: no luck"),
        (SPARK_SAYS.format("aioprod.errors.UsageError: No."), "UsageError: No."),
        (
            "o9.\n: SparkException: Job aborted: A.\nExecutorLostFailure (executor 1) Reason: Command exited\n\tat",
            "ExecutorLostFailure (executor 1) Reason: Command exited",
        ),
        (
            "o9.\n: org.apache.spark.SparkException: Job aborted due to stage failure: A.\n\tat org",
            "Job aborted due to stage failure: A.",
        ),
        ("", "RuntimeError"),
        ("x" * 400, "x" * 297 + "..."),
    ],
)
def test_why_a_job_failed_in_one_line(text: str, expected: str) -> None:
    assert failures.in_short(RuntimeError(text)) == expected
    assert failures.in_short(ConfigError("Wrong.", hint="Right.")) == "Wrong."
