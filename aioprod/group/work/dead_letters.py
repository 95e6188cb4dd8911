"""Dead letters: records whose handler has failed for good, in a topic of their own, with the reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakSet

from aioprod._short_reprs import printable
from aioprod.calls.session import check_topic_name
from aioprod.errors import AioprodError, ConfigError, ProducerClosedError, TransactionAbortedError, UsageError
from aioprod.types import ConsumedRecord, GroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["DeadLetters", "LetterProducer"]

_ERROR_MAX: Final = 1000
"""The characters of an error's text that a letter has."""
_left_early: Final[WeakSet[LetterProducer]] = WeakSet()
"""Producers whose last transaction was left early: a commit that was cancelled or has timed out continues."""


class _Config(Protocol):
    @property
    def transactional_id(self) -> str | None: ...


class _Health(Protocol):
    @property
    def is_alive(self) -> bool: ...


class LetterProducer(Protocol):
    """What dead letters need of `aioprod.Producer`; all but `config` and `send` where it has a `transactional.id`."""

    @property
    def config(self) -> _Config: ...

    async def send(
        self,
        topic: str,
        value: bytes | None = ...,
        *,
        key: bytes | None = ...,
        headers: Sequence[tuple[str, bytes | None]] | None = ...,
    ) -> Any: ...

    def health(self) -> _Health: ...

    def transaction(self) -> AbstractAsyncContextManager[None]: ...

    async def commit_transaction(self) -> None: ...

    async def abort_transaction(self) -> None: ...

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: GroupMetadata
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where records go whose handler has failed for good: a topic, and the producer that sends them.

    A letter has the key, value and headers of the record as they are stored, and these headers in text besides:
    `dead.letter.topic`, `.partition`, `.offset`, `.timestamp` (the origin), `.group`, `.attempts` and `.error`. The
    producer has no serializers. With a `transactional.id`, the letter and the offset of its record are one transaction,
    so that each record has one letter; the producer is then used for nothing else. Without, a crash between the two
    makes a second letter. Raises ConfigError and InvalidTopicError.
    """

    topic: str
    producer: LetterProducer

    def __post_init__(self) -> None:
        check_topic_name(self.topic)
        if not callable(getattr(self.producer, "send", None)):
            raise ConfigError(f"DeadLetters has the producer {self.producer!r:.60}: give an aioprod.Producer.")

    @property
    def is_transactional(self) -> bool:
        """Whether letter and offset are one transaction."""
        return self.producer.config.transactional_id is not None

    @property
    def has_failed(self) -> bool:
        """Whether a transactional producer has failed for good; each call of another one raises UsageError then."""
        return self.is_transactional and not self.producer.health().is_alive

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction of the producer, which begins when the last one has ended; raises what the producer raises.

        An error in its block aborts it, so that what the block has sent can be sent again, whatever became of it.
        """
        if self.producer in _left_early:
            await self._await_last()
        _left_early.add(self.producer)
        async with self.producer.transaction():
            try:
                yield
            except AioprodError as error:
                aborted = error.again()
                aborted.may_be_stored = False
                raise aborted from error.__cause__
        _left_early.discard(self.producer)

    async def _await_last(self) -> None:
        try:
            await self.producer.commit_transaction()
        except TransactionAbortedError:
            await self.producer.abort_transaction()
        except ProducerClosedError:
            raise
        except UsageError:
            # It was aborted before its commit.
            return

    async def send(self, record: ConsumedRecord, group_id: str, attempts: int, error: BaseException) -> None:
        """Send the letter of a record, and wait until it is acknowledged; raises what `Producer.send` raises."""
        text = printable(f"{type(error).__name__}: {error}", _ERROR_MAX)
        origin = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "group": group_id,
            "attempts": attempts,
            "error": text,
        }
        headers = [*record.headers, *((f"dead.letter.{name}", str(value).encode()) for name, value in origin.items())]
        await self.producer.send(self.topic, record.value, key=record.key, headers=headers)
