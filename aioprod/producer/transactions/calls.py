"""The calls of a producer that concern transactions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from aioprod._logger import Logger
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, UsageError
from aioprod.producer.engine import Engine
from aioprod.producer.guard import Guard
from aioprod.producer.transactions.states import TransactionEvent, TransactionState
from aioprod.types import GroupMetadata, NamesGroup, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    # Only a transactional producer imports them.
    from aioprod.producer.transactions.manager import TransactionManager

__all__ = ["TransactionalCalls"]

_logger = Logger("aioprod.producer")


class TransactionalCalls:
    """What a producer with a `transactional.id` can do beside sending. A mixin: `ProducerCalls` sets its attributes."""

    config: ProducerConfig
    _engine: Engine
    _guard: Guard

    async def init_transactions(self) -> None:
        """Do nothing: `start()` has initialized the transactional id. It exists as Java's producer has it.

        After an interrupted change of the cluster's transaction.version it initializes again. Raises
        ProducerFencedError, AuthorizationError, RequestTimedOutError after `max.block.ms`, UsageError.
        """
        await self._transactions(TransactionEvent.INITIALIZE).initialize()

    async def begin_transaction(self) -> None:
        """Begin a transaction: all records sent from now on become visible to read_committed readers together.

        Raises UsageError when one is open, ProducerFencedError when another producer took over the transactional id.
        """
        await self._transactions(TransactionEvent.BEGIN).begin()

    async def commit_transaction(self) -> None:
        """Wait for all records of the transaction, and commit it.

        Raises TransactionAbortedError when a record was not delivered or the coordinator rejected a request: nothing is
        committed, and only `abort_transaction()` is allowed. Raises FlushTimeoutError when records have no outcome
        after `max.block.ms`: the transaction is open as before. Raises RequestTimedOutError when the coordinator has
        not answered after `max.block.ms`: the commit continues in the background, and another call waits for its
        outcome. A cancelled call leaves one of these two states. Raises ProducerFencedError when another producer took
        over.
        """
        await self._transactions(TransactionEvent.COMMIT).commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction: unsent records fail, and readers with read_committed see none of its records.

        Unsent records fail with NotSentError, whose `__cause__` is a TransactionAbortedError. Raises
        RequestTimedOutError after `max.block.ms`: the abort continues in the background. Raises UsageError when no
        transaction is open.
        """
        await self._transactions(TransactionEvent.ABORT).abort()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: str | GroupMetadata | NamesGroup,
    ) -> None:
        """Commit the offsets of a consumer group together with the transaction (KIP-447).

        `offsets` maps (topic, partition) to the next offset to read, or to an `OffsetAndMetadata`. `group_metadata` is
        the group's name, or an object with `group_id` and, for a group's live member, `generation_id`, `member_id` and
        `group_instance_id`: with these the group's coordinator fences a member that was replaced. Raises
        TransactionAbortedError then, AuthorizationError, RequestTimedOutError after `max.block.ms`, UsageError; after
        each the transaction can only be aborted.
        """
        transactions = self._transactions(TransactionEvent.SEND_OFFSETS)
        places = _places(offsets)
        group = _group(group_metadata)
        if error := transactions.call_error(TransactionEvent.SEND_OFFSETS):
            raise error
        if places:
            await transactions.send_offsets(places, group)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A transaction as a block: `async with producer.transaction():` commits at its end.

        An exception, or a cancellation, aborts it and is raised unchanged, also when the abort fails. So an exception
        means that nothing is committed, except for one of the commit itself after EndTxn was sent: then another call of
        `commit_transaction()` waits for the outcome.
        """
        return _Transaction(self)

    async def _abort_open(self) -> None:
        """Abort the transaction if one is open; an error of the abort is logged, and raised by the next transaction."""
        transactions = self._engine.transactions
        assert transactions is not None
        if transactions.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
            try:
                await transactions.abort()
            except AioprodError as error:
                done = "aborted, but its producer has failed" if transactions.is_aborted else "not aborted"
                _logger.warning("A transaction was %s: %s", done, error)

    def _transactions(self, call: TransactionEvent) -> TransactionManager:
        self._guard.check_running()
        if self._engine.transactions is None:
            raise UsageError(
                f"{call.value} can't be called: this producer has no transactional.id.",
                hint="Give it one: Producer(..., transactional_id='...').",
            )
        return self._engine.transactions


class _Transaction:
    """One `async with producer.transaction()`."""

    def __init__(self, producer: TransactionalCalls) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        await self._producer.begin_transaction()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            try:
                await self._producer.commit_transaction()
            except BaseException:
                await self._producer._abort_open()
                raise
        else:
            await self._producer._abort_open()


def _places(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check and normalize the offsets of a caller; raises UsageError."""
    if not isinstance(offsets, Mapping):
        raise UsageError(f"The offsets are of type {type(offsets).__name__}: give a mapping of TopicPartition to int.")
    places: dict[TopicPartition, OffsetAndMetadata] = {}
    for place, given in offsets.items():
        try:
            topic, partition = place
        except (TypeError, ValueError):
            topic = partition = None
        is_place = isinstance(topic, str) and type(partition) is int and 0 <= partition < 2**31
        offset, metadata = given if isinstance(given, OffsetAndMetadata) else (given, "")
        is_offset = type(offset) is int and 0 <= offset < 2**63 and isinstance(metadata, str)
        if not is_place or not is_offset:
            raise UsageError(
                f"{place!r}: {given!r} is not an offset of a partition: give TopicPartition(topic, index): int."
            )
        places[TopicPartition(topic, partition)] = OffsetAndMetadata(offset, metadata)
    return places


def _group(given: object) -> GroupMetadata:
    """Check and normalize the group of a caller; raises UsageError."""
    if isinstance(given, str):
        given = GroupMetadata(given)
    group = (
        given
        if isinstance(given, GroupMetadata)
        else GroupMetadata(
            getattr(given, "group_id", None) or "",
            getattr(given, "generation_id", -1),
            getattr(given, "member_id", ""),
            getattr(given, "group_instance_id", None),
        )
    )
    is_right = (
        isinstance(group.group_id, str)
        and group.group_id != ""
        and isinstance(group.generation_id, int)
        and isinstance(group.member_id, str)
        and isinstance(group.group_instance_id, str | None)
    )
    if not is_right:
        raise UsageError(
            f"{given!r} names no consumer group: give its name, or an object with group_id, generation_id, member_id."
        )
    if not getattr(given, "is_joined", True):
        raise UsageError(
            f"The member of group {group.group_id!r} is in no generation of it, so brokers could not fence it later.",
            hint="Read member.group_metadata after the member has returned records, and before the next call for more.",
        )
    return group
