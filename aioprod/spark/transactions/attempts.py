"""A step from its beginning to a commit without doubt: whole attempts, one after the other, each under a new epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from aioprod.errors import (
    AioprodError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionUnknownError,
)
from aioprod.producer import TransactionHandle
from aioprod.spark import worker
from aioprod.spark.transactions import failures
from aioprod.spark.transactions.marker import Action
from aioprod.spark.transactions.steps import Steps

__all__ = ["Attempts", "Tally"]

T = TypeVar("T")
_logger = logging.getLogger(__name__)


@dataclass
class Tally:
    """What has happened since the beginning, in steps and attempts."""

    committed: int = 0
    skipped: int = 0
    rerun: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why steps were run again, the last hundred."""

    def again(self, step: int, reason: str) -> None:
        self.rerun += 1
        self.reasons = [*self.reasons[-99:], f"step {step}: {reason}"]


class Attempts:
    """Runs steps on this process's loop, from any thread, one at a time; `limit` is how often one may be tried."""

    def __init__(self, steps: Steps, limit: int, tally: Tally | None = None) -> None:
        self._steps = steps
        self._limit = limit
        self.tally = Tally() if tally is None else tally

    def run(self, step: int, job: Callable[[TransactionHandle], T]) -> T | None:
        """Run `job` until its transaction is committed; None if the step was committed before, by whomever.

        `job` writes in the transaction and returns when all is acknowledged, or raises. What it returns is that of
        the attempt that was committed. Raises ProducerFencedError when another driver took over, and
        TransactionAbortedError when the transaction timed out a second time. Errors that no other attempt can change,
        and those of a job that was stopped, are raised at once, all others after the last attempt.
        """
        steps = self._steps
        unclear: list[T] = []
        timeouts = 0
        last: BaseException | None = None
        for attempt in range(1, self._limit + 1):
            begun = worker.run(steps.begin(step))
            if begun.action is Action.SKIP:
                if unclear:
                    self.tally.committed += 1
                    return unclear[-1]
                self.tally.skipped += 1
                _logger.info("Step %d of %s was committed before: skipped.", step, steps.id)
                return None
            if attempt > 1:
                self.tally.again(step, failures.in_short(last))
            unclear.clear()
            try:
                result = None if begun.action is Action.MARK else job(begun.handle)
            except BaseException as failure:
                last = self._failed(failure)
                timeouts += isinstance(last, TransactionAbortedError)
            else:
                try:
                    worker.run(steps.commit(step))
                except AioprodError as failure:
                    last = self._unclear(failure)
                    timeouts += isinstance(last, TransactionAbortedError)
                    if result is not None:
                        unclear.append(result)
                else:
                    self.tally.committed += result is not None
                    self.tally.skipped += result is None
                    return result
            if timeouts > 1:
                raise self._too_slow(step) from last
            _logger.warning("Attempt %d of step %d of %s is lost: %s", attempt, step, steps.id, failures.in_short(last))
        return self._failure(step, unclear, last)

    def _failure(self, step: int, unclear: list[T], last: BaseException | None) -> T:
        """After the last attempt: also of that one it is the marker which knows how it ended."""
        for result in unclear:
            if worker.run(self._steps.is_committed(step)):
                self.tally.committed += 1
                return result
        what = failures.in_short(last)
        raise TransactionAbortedError(
            f"Step {step} of {self._steps.id!r} was tried {self._limit} times and not committed; the last time: {what}",
            hint="None of it is visible to readers with isolation.level=read_committed.",
        ) from last

    def _failed(self, failure: BaseException) -> BaseException:
        """After a job failed: raises what ends the step, else returns what was the matter."""
        if not isinstance(failure, Exception) or failures.was_stopped(failure):
            worker.run(self._abort_quietly())
            raise failure
        error, is_final = failures.of_job(failure)
        if is_final and error is not None:
            worker.run(self._abort_quietly())
            raise error from failure
        if worker.run(self._steps.timed_out()):
            return _timed_out(failure)
        worker.run(self._steps.abort())
        return failure if error is None else error

    def _unclear(self, failure: AioprodError) -> BaseException:
        """After a commit failed, or may have failed: raises what ends the step, else returns what was the matter."""
        if isinstance(failure, ProducerFencedError) or failures.is_final(failure):
            raise failure
        if worker.run(self._steps.timed_out()):
            return _timed_out(failure)
        if not isinstance(failure, TransactionUnknownError):
            worker.run(self._steps.abort())
        return failure

    async def _abort_quietly(self) -> None:
        try:
            await self._steps.abort()
        except ProducerFencedError as error:
            _logger.warning("%s", error)

    def _too_slow(self, step: int) -> TransactionAbortedError:
        return TransactionAbortedError(
            f"Step {step} of {self._steps.id!r} took longer than transaction.timeout.ms={self._steps.timeout_ms} twice:"
            " brokers aborted it.",
            hint="Give it less to do (maxOffsetsPerTrigger, more chunks), or raise transaction_timeout_ms, and "
            "transaction.max.timeout.ms of the brokers (15 minutes if not set) where that is lower.",
        )


def _timed_out(cause: BaseException) -> TransactionAbortedError:
    error = TransactionAbortedError("The transaction timed out.")
    error.__cause__ = cause
    return error
