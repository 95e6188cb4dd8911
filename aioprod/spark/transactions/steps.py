"""The driver's part of a step: to begin its transaction, to learn whether it was committed before, to commit it.

The steps are those of the page docs/spark.md. All that is known of a step's outcome comes from its marker, which is
looked at when nothing older can be committed any more: after `begin`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aioprod.admin import Admin
from aioprod.config import SessionConfig
from aioprod.errors import (
    AioprodError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionUnknownError,
)
from aioprod.net.session import Started
from aioprod.producer import TransactionHandle, TransactionSession
from aioprod.producer.transactions.session_settings import TransactionSessionConfig
from aioprod.producer.transactions.status import TransactionStatus
from aioprod.spark.transactions.marker import Action, Policy, decide, group_of, marker_of
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["Begun", "Steps"]

_SETTLES_S: Final = 3.0
"""How long it may take a coordinator to finish what somebody who takes over began."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that was begun for a step, and what the marker says is to be done in it."""

    handle: TransactionHandle
    action: Action


class Steps(Started):
    """One transaction after another under one transactional id, in one event loop: an async context manager that
    connects.

    `marker` is the partition that the marker's group has its offset for; `owner` whose steps they are. Calls go on
    trying for `default.api.timeout.ms`, and raise RequestTimedOutError then: also for an offset that stays unstable.
    `took_ms` has how long each of the last calls took, by name.
    """

    def __init__(
        self,
        config: TransactionSessionConfig,
        *,
        marker: TopicPartition,
        owner: str,
        policy: Policy = Policy.REFUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = TransactionSession(config=config)
        self._admin = Admin(config=SessionConfig.from_options(**_shared(config)))
        self._marker = marker
        self._owner = owner
        self._policy = policy
        self._clock = clock
        self._began_s = 0.0
        self.id = str(config.transactional_id)
        self.group = group_of(self.id)
        self.timeout_ms = config.transaction_timeout_ms
        self.took_ms: dict[str, float] = {}

    async def start(self) -> None:
        """Connect; raises MetadataTimeoutError when no bootstrap server answers, UnknownTopicError for the marker's,
        UnsupportedVersionError for brokers before 3.0."""
        await self._session.start()
        try:
            self._session.check_brokers()
            await self._admin.start()
            await self.partition_count(self._marker.topic)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections; an open transaction is left to whoever begins next, or to its time-out."""
        await self._session.close()
        await self._admin.close()

    # --- topics

    async def partition_count(self, topic: str) -> int:
        """How many partitions a topic has now; raises UnknownTopicError, AuthorizationError."""
        return len(await self._admin.partitions(topic))

    async def partition_counts(self) -> dict[str, int]:
        """The same for all topics of the cluster but Kafka's own."""
        return await self._admin.partition_counts()

    # --- a step

    async def begin(self, step: int) -> Begun:
        """Begin a transaction for a step, fencing all who were at it before, and see what the marker says.

        Where that is not to write the rows, the transaction is left as it is: nothing is in it, so that the next
        `begin` goes on. Raises UsageError for a marker that forbids the step, and what `TransactionSession.begin` and
        `committed_offsets` raise.
        """
        handle, found = await self.begin_unseen()
        return Begun(handle, decide(found, step, self._owner, self._policy, self.id))

    async def begin_unseen(self) -> tuple[TransactionHandle, OffsetAndMetadata | None]:
        """The same where it is not known yet for which step: the transaction, and the marker as it is."""
        started = self._clock()
        handle = await self._session.begin()
        self._began_s = self._note("init", started)
        found = await self._found()
        self._note("fetch", self._began_s)
        return handle, found

    async def commit(self, step: int) -> None:
        """Commit the transaction and the marker in it; raises what `send_offsets` and `commit` of a session raise."""
        started = self._clock()
        await self._session.send_offsets({self._marker: marker_of(step, self._owner)}, self.group)
        sent = self._note("offsets", started)
        await self._session.commit()
        self._note("end", sent)
        # From here on there is a marker: if it were gone again that would be another matter.
        self._policy = Policy.REFUSE

    async def is_committed(self, step: int) -> bool:
        """After a commit without a clear answer: whether it was carried out. Begins, so that it can't be any more."""
        await self._session.begin()
        found = await self._found()
        return found is not None and found.metadata == self._owner and found.offset > step

    async def resume(self, handle: TransactionHandle) -> None:
        """Go on with a transaction that was begun elsewhere, to end it."""
        self._began_s = self._clock()
        self._session.resume(handle)

    async def abort(self) -> None:
        """Abort, if it can be: what stays open is aborted by the next `begin`, or its time-out. Raises
        ProducerFencedError when somebody took over."""
        try:
            await self._session.abort()
        except ProducerFencedError:
            raise
        except AioprodError:
            return

    async def timed_out(self) -> bool:
        """Whether the open transaction is gone because it was open for too long; False if it is not gone.

        Raises ProducerFencedError when somebody took over, who must not be fenced in turn, and
        TransactionAbortedError when it was aborted by another hand.
        """
        handle = self._session.handle
        if handle is None:
            return False
        deadline = self._clock() + _SETTLES_S
        while True:
            standing = TransactionStatus.NOT_KNOWN
            with suppress(TimeoutError):
                standing = await self._session.standing(handle)
            if standing is TransactionStatus.TAKEN_OVER:
                raise fenced(self.id)
            if standing is not TransactionStatus.ABORTED:
                return False
            if self._clock() - self._began_s >= self.timeout_ms / 1000:
                return True
            # Who takes over makes the coordinator abort first, which looks the same for a moment.
            if self._clock() >= deadline:
                raise TransactionAbortedError(
                    f"The transaction of {self.id!r} was aborted by another hand, before its time-out.",
                    hint="Was it kafka-transactions.sh? Start again when that is done: the marker tells what is left.",
                )
            await asyncio.sleep(0.1)

    async def _found(self) -> OffsetAndMetadata | None:
        return (await self._session.committed_offsets(self.group, [self._marker]))[self._marker]

    def _note(self, name: str, started: float) -> float:
        now = self._clock()
        self.took_ms[name] = (now - started) * 1e3
        return now


def fenced(transactional_id: str) -> ProducerFencedError:
    """Somebody else is at it: this one stops."""
    return ProducerFencedError(
        f"Another query or run with the transactional.id {transactional_id!r} took over, and this one stops.",
        hint="See that only one of them runs. What this one did last is committed or not as its marker says.",
    )


def is_taken_over(error: TransactionUnknownError) -> bool:
    """Whether the outcome of a commit is unknown because somebody else came."""
    return error.standing is TransactionStatus.TAKEN_OVER


def _shared(config: TransactionSessionConfig) -> dict[str, object]:
    own = ("transactional_id", "transaction_timeout_ms")
    return {name: getattr(config, name) for name in config.explicit if name not in own}
