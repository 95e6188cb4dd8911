"""The calls of the facade that concern transactions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from aioprod.config import ProducerConfig
from aioprod.core.transactions import TransactionEvent, TransactionState
from aioprod.errors import AioprodError, UsageError
from aioprod.producer.engine import Engine
from aioprod.types import ErrorCallback, GroupMetadata, TopicPartition

if TYPE_CHECKING:
    # Only a transactional producer imports them.
    from aioprod.producer.transactions.handle import TransactionHandle
    from aioprod.producer.transactions.runner import Transactions

__all__ = ["TransactionalCalls"]

log = logging.getLogger("aioprod.producer")


class NamesGroup(Protocol):
    """The group metadata of another client's consumer; its member is taken from the attributes of `GroupMetadata`."""

    @property
    def group_id(self) -> str:
        """The name of the consumer group."""
        ...


class TransactionalCalls:
    """What a producer with a `transactional.id` can do beside sending; `Producer` derives from it."""

    def __init__(
        self, config: ProducerConfig, on_error: ErrorCallback | None, handle: TransactionHandle | None = None
    ) -> None:
        self.config = config
        self._engine = Engine(config, on_error, handle)
        self._guard = self._engine.guard

    async def init_transactions(self) -> None:
        """Do nothing: `start()` has initialized the transactional id. Here for those who are used to Java's producer.

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

        Raises TransactionAbortedError when a record was not delivered or the coordinator refused something: nothing is
        committed, and `abort_transaction()` is what is left. Raises FlushTimeoutError when records have no outcome
        after `max.block.ms`: the transaction is open as before. Raises RequestTimedOutError when the coordinator has
        not answered after `max.block.ms`: the commit goes on, and calling this again tells how it ends. A call that is
        cancelled leaves the one or the other, too. Raises ProducerFencedError when another producer took over.
        """
        await self._transactions(TransactionEvent.COMMIT).commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction: what was not sent is given up, and readers with read_committed see none of it.

        Records that are given up fail with NotSentError, whose `__cause__` is a TransactionAbortedError. Raises
        RequestTimedOutError after `max.block.ms`: the abort goes on. Raises UsageError when nothing is open.
        """
        await self._transactions(TransactionEvent.ABORT).abort()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group_metadata: str | GroupMetadata | NamesGroup
    ) -> None:
        """Commit the offsets of a consumer group together with the transaction (KIP-447).

        `offsets` maps (topic, partition) to the next offset to read. `group_metadata` is the group's name, or an object
        with `group_id` and, for a group's live member, `generation_id`, `member_id` and `group_instance_id`: with these
        the group's coordinator refuses members that were replaced meanwhile. Raises TransactionAbortedError then,
        AuthorizationError, RequestTimedOutError after `max.block.ms`, UsageError; after each the transaction can only
        be aborted.
        """
        transactions = self._transactions(TransactionEvent.SEND_OFFSETS)
        places = _places(offsets)
        group = _group(group_metadata)
        if refusal := transactions.refusal(TransactionEvent.SEND_OFFSETS):
            raise refusal
        if places:
            await transactions.send_offsets(places, group)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A transaction as a block: `async with producer.transaction():` commits at its end.

        An exception, or a cancellation, aborts it and comes out unchanged, also when the abort fails. So what comes out
        of the block tells that nothing is committed, with one exception: an error of the commit itself, after the
        coordinator was told; `commit_transaction()` then tells how it ended.
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
                done = "aborted, but its producer can't go on" if transactions.is_aborted else "not aborted"
                log.warning("A transaction was %s: %s", done, error)

    def _transactions(self, call: TransactionEvent) -> Transactions:
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


def _places(offsets: object) -> dict[TopicPartition, int]:
    """Offsets as the user gives them; raises UsageError."""
    if not isinstance(offsets, Mapping):
        raise UsageError(f"The offsets are of type {type(offsets).__name__}: give a mapping of TopicPartition to int.")
    places: dict[TopicPartition, int] = {}
    for place, offset in offsets.items():
        try:
            topic, partition = place
        except (TypeError, ValueError):
            topic = partition = None
        is_place = isinstance(topic, str) and type(partition) is int and 0 <= partition < 2**31
        if not is_place or type(offset) is not int or not 0 <= offset < 2**63:
            raise UsageError(
                f"{place!r}: {offset!r} is no offset of a partition: give TopicPartition(topic, index): int."
            )
        places[TopicPartition(topic, partition)] = offset
    return places


def _group(given: object) -> GroupMetadata:
    """A group as the user gives it; raises UsageError."""
    if isinstance(given, str):
        given = GroupMetadata(given)
    group = GroupMetadata(
        getattr(given, "group_id", None) or "",
        getattr(given, "generation_id", -1),
        getattr(given, "member_id", ""),
        getattr(given, "group_instance_id", None),
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
            f"The member of group {group.group_id!r} is in no generation of it, so nobody would notice its successor.",
            hint="Take member.group_metadata when it has given records, and before it is asked for more.",
        )
    return group
