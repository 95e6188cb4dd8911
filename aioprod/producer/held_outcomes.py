"""Batches with an unknown outcome whose records wait until it is known (`resolve.unknown.outcomes`)."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from aioprod._short_reprs import shown_error
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, RejectedError
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.stuck_share import StuckShare
from aioprod.producer.batching.unknown import Decision, UnknownBatch
from aioprod.producer.completions import Completions
from aioprod.producer.failure import Failure
from aioprod.producer.logs.event_log import EventLog
from aioprod.producer.meters import Meters
from aioprod.producer.resolver import Resolver

__all__ = ["HeldOutcomes"]

_PER_TURN: Final = 100
"""So many batches are completed in one iteration of the loop: some milliseconds' worth."""
_LOG_S: Final = 60.0
"""While batches are held, it is logged once in so many seconds what became of others."""


class _Held(NamedTuple):
    batch: Batch
    failure: Failure
    """What its records get where nothing is found out."""
    due: float
    """When it fails as unknown, in monotonic seconds."""


class HeldOutcomes:
    """Hands done batches on to the completions; those whose answers were lost only once it is known if they are stored.

    Their bytes stay counted. Later batches of their partition do not wait for them: the next one decides.
    """

    def __init__(
        self,
        config: ProducerConfig,
        resolver: Resolver,
        completions: Completions,
        *,
        share: StuckShare,
        meters: Meters,
        event_log: EventLog,
        clock: Callable[[], float],
        due: Callable[[float], object],
    ) -> None:
        self._limit_s = config.resolve_timeout_ms / 1000
        self._share = share
        """What is held counts as stuck, too: others find the rest of the memory."""
        self._bytes_max = min(share.limit, config.buffer_memory - config.batch_size)
        """What is held may take no more: the records that decide have to fit."""
        self._resolver = resolver
        self._completions = completions
        self._meters = meters
        self._event_log = event_log
        self._clock = clock
        """Monotonic time in seconds."""
        self._due = due
        """Takes the time at which `poll` is to be called."""
        self._held: dict[UnknownBatch, _Held] = {}
        """The oldest first."""
        self._concluding: deque[tuple[UnknownBatch, BaseException | None]] = deque()
        """Batches to complete in the next iterations of the loop, each with the error of its reading, None without."""
        self._has_ended = False
        self._stored = self._absent = self._unknown = 0
        """Records that were held, of which this has not been logged yet."""
        self._log_at = 0.0
        resolver.listen(self._decided)

    # --- what comes in

    def succeed(self, batch: Batch, base_offset: int, append_time: int) -> None:
        """As `Completions.succeed`."""
        self._completions.succeed(batch, base_offset, append_time)

    def fail(self, batch: Batch, failure: Failure) -> None:
        """As `Completions.fail`, and later where it may be found out whether the batch is stored."""
        unknown = failure.unknown
        if unknown is None:
            self._completions.fail(batch, failure)
        elif self._has_ended:
            self._meters.metrics.unresolved_total.add(batch.records)
            self._completions.fail(batch, failure)
        else:
            self._hold(unknown, _Held(batch, failure, unknown.failed_at + self._limit_s))

    def _hold(self, unknown: UnknownBatch, held: _Held) -> None:
        if not self._held:
            self._log_at = unknown.failed_at + _LOG_S
        self._held[unknown] = held
        self._share.done += held.batch.record_bytes
        self._due(held.due)
        while self._held and self._share.done > self._bytes_max:
            oldest = next(iter(self._held))
            why = f"what waits for this takes more than {self._bytes_max} bytes of buffer.memory"
            self._keep_unknown(oldest, oldest.still_unknown("undecided", why))

    def batches(self) -> list[Batch]:
        """The done batches with records that are not completed yet."""
        return self._completions.batches() + [held.batch for held in self._held.values()]

    @property
    def last_due(self) -> float | None:
        """When the last of what is held now fails as unknown, in monotonic seconds; None where nothing is held."""
        return next((held.due for held in reversed(self._held.values())), None)

    # --- finding out

    def _decided(self, batches: Sequence[UnknownBatch]) -> None:
        for unknown in batches:
            decision = unknown.decision
            if unknown not in self._held:
                continue
            if decision is None or unknown.verdict is not None:
                self._conclude_soon([unknown])
            else:
                self._resolver.read(decision).add_done_callback(partial(self._has_read, decision))
                break  # It is read for all of them.

    def _has_read(self, decision: Decision, reading: asyncio.Task[None]) -> None:
        self._conclude_soon(decision.batches, None if reading.cancelled() else reading.exception())

    def _conclude_soon(self, batches: Sequence[UnknownBatch], error: BaseException | None = None) -> None:
        self._concluding += [(unknown, error) for unknown in batches]
        self._due(self._clock())

    def _conclude(self, unknown: UnknownBatch, error: BaseException | None = None) -> None:
        """Complete a batch with what is known of it; `error` is why that may be nothing."""
        verdict = unknown.verdict
        if verdict is not None and verdict.base_offset >= 0:
            self._store(unknown, verdict.base_offset, verdict.append_time)
        elif verdict is not None:
            self._reject(unknown)
        elif unknown.hopeless is not None:
            self._keep_unknown(unknown, unknown.still_unknown(*unknown.hopeless))
        elif isinstance(error, AioprodError):
            self._keep_unknown(unknown, error)
        else:
            why = "its partition could not be read"
            said = why if error is None else f"{why}: {shown_error(error)}"
            self._keep_unknown(unknown, unknown.still_unknown("unanswered", said))

    def poll(self, now: float) -> float:
        """Complete what is known, and fail what is due, some of it; returns when to call this again."""
        for _ in range(min(len(self._concluding), _PER_TURN)):
            unknown, error = self._concluding.popleft()
            if unknown in self._held:
                self._conclude(unknown, error)
        if self._concluding:
            return now
        for unknown, held in list(islice(self._held.items(), _PER_TURN)):
            if held.due > now:
                break
            self._keep_unknown(unknown, unknown.too_late(self._limit_s))
        self._log()
        return next((held.due for held in self._held.values()), math.inf)

    def end(self) -> bool:
        """Fail some, and what comes from now on at once, as the producer ends; whether there are more."""
        self._has_ended = True
        for unknown in list(islice(self._held, _PER_TURN)):
            self._keep_unknown(unknown, unknown.still_unknown("undecided", "the producer ended before"))
        self._log()
        return bool(self._held)

    # --- outcomes

    def _store(self, unknown: UnknownBatch, base_offset: int, append_time: int) -> None:
        batch = self._held[unknown].batch
        self._stored += batch.records
        self._meters.metrics.resolved_stored_total.add(batch.records)
        self._meters.delivered(batch, self._clock())
        self._completions.succeed(batch, base_offset, append_time)
        self._let_go(unknown)

    def _reject(self, unknown: UnknownBatch) -> None:
        batch, failure, _ = self._held[unknown]
        self._absent += batch.records
        self._meters.metrics.resolved_absent_total.add(batch.records)
        rejected = failure._replace(
            family=RejectedError,
            why=f"{failure.why} It was found out that it is in no log: brokers reject what is still on its way.",
            hint="It can be sent again without making duplicates.",
            unknown=None,
        )
        self._completions.fail(batch, self._aged(rejected, unknown))
        self._let_go(unknown)

    def _keep_unknown(self, unknown: UnknownBatch, error: AioprodError) -> None:
        batch, failure, _ = self._held[unknown]
        self._unknown += batch.records
        self._meters.metrics.unresolved_total.add(batch.records)
        failure = failure._replace(why=f"{failure.why} {error.message}")
        self._completions.fail(batch, self._aged(failure, unknown))
        self._let_go(unknown)

    def _aged(self, failure: Failure, unknown: UnknownBatch) -> Failure:
        return failure._replace(age_s=failure.age_s + self._clock() - unknown.failed_at)

    def _let_go(self, unknown: UnknownBatch) -> None:
        self._share.done -= self._held.pop(unknown).batch.record_bytes
        self._completions.schedule()

    def _log(self) -> None:
        now = self._clock()
        if (self._stored or self._absent or self._unknown) and (not self._held or now >= self._log_at):
            self._event_log.found_out(self._stored, self._absent, self._unknown, now)
            self._stored = self._absent = self._unknown = 0
            self._log_at = now + _LOG_S
