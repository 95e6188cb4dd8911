"""What the failure of a Spark job means: was it stopped, can a retry help, what did our task raise."""

from __future__ import annotations

import re
from typing import Final

from aioprod import errors
from aioprod.errors import (
    AioprodError,
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    InvalidRecordError,
    UndeliveredRowsError,
    UnsupportedVersionError,
)

__all__ = ["FinalTaskError", "for_the_driver", "in_short", "is_final", "of_job", "was_stopped"]

_FINAL: Final = (
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    InvalidRecordError,
    UnsupportedVersionError,
)
"""Errors that only another setting, or other rows, can avoid."""

_STOPPED: Final = (
    "InterruptedException",
    "ClosedByInterruptException",
    "SPARK_JOB_CANCELLED",
    "cancelled part of cancelled job group",
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "STREAM_CANCELLED",
)
"""What Spark's errors contain when a user ended the job: `query.stop()`, a cancelled job, the end of the session."""

_RAISED_BY_SQL: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?\s*$", re.MULTILINE)
"""The text of SQL's `raise_error`, by which the choice of partitions rejects a row."""

_RAISED: Final = re.compile(r"aioprod\.(?:errors|spark\.transactions\.failures)\.(\w+): (.+)")
_REASONS: Final = (
    re.compile(r"^(?!org\.apache\.|java\.|py4j\.)(?:[\w.]+\.)?(\w+(?:Error|Exception): .+)$", re.MULTILINE),
    re.compile(r"(ExecutorLostFailure .+|Python worker exited unexpectedly.*)$", re.MULTILINE),
    re.compile(r"Caused by: (.+)$", re.MULTILINE),
    re.compile(r"(Job aborted due to stage failure: .+)$", re.MULTILINE),
)
"""Which of Spark's many lines has the cause: a task's exception, a lost executor, anything else."""

_REASON_LETTERS_MAX: Final = 300
_OF_FINAL: Final = re.compile(r"(\w+): (.*)")


class FinalTaskError(AioprodError):
    """Marks for the driver, through the text of Spark's exception, that the task would fail again."""


def is_final(error: BaseException | None) -> bool:
    """Whether an error, or its cause, repeats with the same rows and settings."""
    return error is not None and (isinstance(error, _FINAL) or is_final(error.__cause__))


def for_the_driver(error: AioprodError) -> AioprodError:
    """The exception that a task raises in place of an error that `is_final`."""
    return FinalTaskError(f"{type(error).__name__}: {_one_line(error)}")


def was_stopped(failure: BaseException) -> bool:
    """Whether a user ended the job, so that it must not be retried."""
    text = f"{type(failure).__name__}: {failure}"
    return isinstance(failure, KeyboardInterrupt) or any(sign in text for sign in _STOPPED)


def of_job(failure: BaseException) -> tuple[AioprodError | None, bool]:
    """Our error in the text of a failed job, None if there is none, and whether it `is_final`."""
    if isinstance(failure, AioprodError):
        return failure, is_final(failure)
    rejected = _RAISED_BY_SQL.search(str(failure))
    if rejected is not None:
        return UndeliveredRowsError(rejected[1]), True
    raised = _RAISED.findall(str(failure))
    if not raised:
        return None, False
    name, text = raised[-1]
    if name != FinalTaskError.__name__:
        return _named(name, text), False
    inner = _OF_FINAL.fullmatch(text)
    return (_named(inner[1], inner[2]) if inner is not None else AioprodError(text)), True


def in_short(failure: BaseException | None) -> str:
    """One line with the cause."""
    text = failure.message if isinstance(failure, AioprodError) else str(failure)
    found = None
    if not isinstance(failure, AioprodError):
        found = next((match for reason in _REASONS if (match := reason.search(text)) is not None), None)
    line = found[1] if found is not None else (text.strip().splitlines() or [type(failure).__name__])[0]
    return line if len(line) <= _REASON_LETTERS_MAX else line[: _REASON_LETTERS_MAX - 3] + "..."


def _named(name: str, text: str) -> AioprodError:
    kind = getattr(errors, name, AioprodError)
    if not (isinstance(kind, type) and issubclass(kind, AioprodError)):
        kind = AioprodError
    message, _, hint = text.strip().partition(" Hint: ")
    try:
        return kind(message, hint=hint or None)
    except TypeError:  # Its constructor needs more than a text.
        return AioprodError(message, hint=hint or None)


def _one_line(error: AioprodError) -> str:
    return " ".join(str(error).split())
