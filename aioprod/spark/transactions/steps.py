"""The driver's part of a step: begin its transaction, learn whether it was committed before, commit it.

A step is a micro-batch of a query or a chunk of a load; its protocol is in docs/spark.md:

1. InitProducerId raises the epoch, so that no older producer of this transactional id can commit any more.
2. Only then the marker is read: the offset that the step before committed, in the same transaction as its records.
3. If the marker is at this step, the tasks write; if it is past it, the step was committed by an earlier attempt.
4. The driver adds the next marker to the transaction and commits both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aioprod.admin import Admin
from aioprod.calls.session import Started
from aioprod.config import SessionConfig
from aioprod.errors import (
    AioprodError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionUnknownError,
)
from aioprod.producer import TransactionHandle, TransactionSession
from aioprod.producer.transactions.session_settings import TransactionSessionConfig
from aioprod.producer.transactions.status import TransactionStatus
from aioprod.spark.transactions.marker import Action, Policy, decide, group_of, marker_of
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["Begun", "Steps"]

_TAKEOVER_S: Final = 3.0
"""How long a coordinator may take to finish the takeover by another producer."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that was begun for a step, and the action that the marker requires."""

    handle: TransactionHandle
    action: Action


class Steps(Started):
    """One transaction after another under one transactional id: an async context manager that connects.

    `marker` is the partition for which the marker's group commits its offset; `owner` is the query or run of the steps.
    Calls retry for `default.api.timeout.ms`, also while an offset is unstable, and raise RequestTimedOutError then.
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
        """The duration of the last call of each name."""

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
        """Close all connections; the next `begin`, or its time-out, aborts an open transaction."""
        await self._session.close()
        await self._admin.close()

    # --- topics

    async def partition_count(self, topic: str) -> int:
        """How many partitions a topic has now; raises UnknownTopicError, AuthorizationError."""
        return len(await self._admin.partitions(topic))

    async def partition_counts(self) -> dict[str, int]:
        """The number of partitions of each topic but Kafka's own."""
        return await self._admin.partition_counts()

    # --- a step

    async def begin(self, step: int) -> Begun:
        """Begin a transaction for a step, which fences every earlier producer of it, and read the marker.

        If there is nothing to write, the transaction stays empty, and the next `begin` takes its place. Raises
        UsageError for a marker that forbids the step, and what `TransactionSession.begin` and `committed_offsets`
        raise.
        """
        handle, found = await self.begin_unseen()
        return Begun(handle, decide(found, step, self._owner, self._policy, self.id))

    async def begin_unseen(self) -> tuple[TransactionHandle, OffsetAndMetadata | None]:
        """Begin a transaction as `begin` does, while the step is not known yet; returns it, and the marker as it is."""
        started = self._clock()
        handle = await self._session.begin()
        self._began_s = self._note("init", started)
        found = await self._found()
        self._note("fetch", self._began_s)
        return handle, found

    async def commit(self, step: int) -> None:
        """Commit the transaction and the marker in it.

        Raises what `send_offsets` and `commit` of a session raise, but ProducerFencedError in place of
        TransactionUnknownError when another producer took over meanwhile.
        """
        started = self._clock()
        try:
            await self._session.send_offsets({self._marker: marker_of(step, self._owner)}, self.group)
            sent = self._note("offsets", started)
            await self._session.commit()
        except TransactionUnknownError as error:
            if error.status is TransactionStatus.TAKEN_OVER:
                raise _fenced(self.id) from error
            raise
        self._note("end", sent)
        # There is a marker from here on: if it disappears now, something else is wrong.
        self._policy = Policy.REFUSE

    async def is_committed(self, step: int) -> bool:
        """Whether a commit whose answer was lost took effect. Begins a transaction first: after that it cannot."""
        await self._session.begin()
        found = await self._found()
        return found is not None and found.metadata == self._owner and found.offset > step

    async def resume(self, handle: TransactionHandle) -> None:
        """Take over a transaction that another process began, to end it."""
        self._began_s = self._clock()
        self._session.resume(handle)

    async def abort(self) -> None:
        """Abort the transaction, if possible: otherwise the next `begin`, or its time-out, aborts it.

        Raises ProducerFencedError when another producer took over.
        """
        try:
            await self._session.abort()
        except ProducerFencedError:
            raise
        except AioprodError:
            return

    async def timed_out(self) -> bool:
        """Whether the coordinator aborted the open transaction because of its time-out; False if it is still open.

        Raises ProducerFencedError when another producer took over, which must not be fenced in turn, and
        TransactionAbortedError when a tool aborted it.
        """
        handle = self._session.handle
        if handle is None:
            return False
        deadline = self._clock() + _TAKEOVER_S
        while True:
            status = TransactionStatus.NOT_KNOWN
            with suppress(TimeoutError):
                status = await self._session.status(handle)
            if status is TransactionStatus.TAKEN_OVER:
                raise _fenced(self.id)
            if status is not TransactionStatus.ABORTED:
                return False
            if self._clock() - self._began_s >= self.timeout_ms / 1000:
                return True
            # A takeover makes the coordinator abort first, which looks the same for a moment.
            if self._clock() >= deadline:
                raise TransactionAbortedError(
                    f"The transaction of {self.id!r} was aborted by a tool, before its time-out.",
                    hint="Was it kafka-transactions.sh? Start again after that: the marker shows what is left.",
                )
            await asyncio.sleep(0.1)

    async def _found(self) -> OffsetAndMetadata | None:
        return (await self._session.committed_offsets(self.group, [self._marker]))[self._marker]

    def _note(self, name: str, started: float) -> float:
        now = self._clock()
        self.took_ms[name] = (now - started) * 1e3
        return now


def _fenced(transactional_id: str) -> ProducerFencedError:
    """The error for a step that another query or run with this transactional.id has fenced."""
    return ProducerFencedError(
        f"Another query or run with the transactional.id {transactional_id!r} took over, and this one stops.",
        hint="Make sure that only one of them runs. The marker says whether the last step of this one was committed.",
    )


def _shared(config: TransactionSessionConfig) -> dict[str, object]:
    own = ("transactional_id", "transaction_timeout_ms")
    return {name: getattr(config, name) for name in config.explicit if name not in own}
