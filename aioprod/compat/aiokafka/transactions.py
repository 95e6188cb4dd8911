"""aiokafka's calls for transactions, and when they raise."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from aioprod.compat.aiokafka import errors
from aioprod.compat.aiokafka.sending import SendingProducer
from aioprod.compat.aiokafka.translation import as_kind, kafka_error, kind_of
from aioprod.errors import AioprodError, UsageError
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["TransactionContext", "Transactions"]


class Transactions:
    """The transactions of one producer; without a transactional id each call raises IllegalOperation."""

    def __init__(self, producer: SendingProducer) -> None:
        self._producer = producer
        self._calls = 0

    async def begin(self) -> None:
        """Begin one, after the end of one whose caller was interrupted; raises AssertionError while one is open."""
        if not self._calls and (end := self._producer.unfinished_end) is not None:
            await self._called(end)
        await self._called(self._producer.begin_transaction)

    async def commit(self) -> None:
        """Wait for the records and commit; raises why they were not delivered, AssertionError where none is open."""
        await self._called(self._producer.commit_transaction)

    async def abort(self) -> None:
        """Abort; raises AssertionError where none is open."""
        await self._called(self._producer.abort_transaction)

    async def send_offsets(self, offsets: Any, group_id: Any) -> None:
        """Commit offsets of a group with the transaction; raises ValueError or TypeError for what is none."""
        self._check_transactional()
        if not self._producer.is_in_transaction:
            raise self._not_in_transaction("Offsets")
        if not group_id or not isinstance(group_id, str):
            raise as_kind(ValueError, UsageError(f"{group_id!r} is not a group: give its name as a str."))
        places = _places(offsets)
        try:
            await self._producer.send_offsets_to_transaction(places, group_id)
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__

    def check_open(self) -> None:
        """Raise IllegalOperation where records have to be in a transaction and none is open, or why none ever will."""
        if self._producer.config.transactional_id is not None and not self._producer.is_in_transaction:
            if (error := self._producer.fatal_error) is not None:
                raise kafka_error(error)
            raise self._not_in_transaction("Records")

    async def abort_if_open(self) -> None:
        """Abort what is open, if anything; an error of the abort is logged."""
        await self._producer.abort_if_open()

    async def _called(self, call: Any) -> None:
        self._check_transactional()
        self._calls += 1
        try:
            await call()
        except UsageError as error:
            kind = kind_of(error) if not self._producer.is_usable else AssertionError
            raise as_kind(kind or AssertionError, error) from error.__cause__
        except AioprodError as error:
            raise kafka_error(error) from error.__cause__
        finally:
            self._calls -= 1

    def _check_transactional(self) -> None:
        if self._producer.config.transactional_id is None:
            raise as_kind(
                errors.IllegalOperation,
                UsageError("This producer has no transactions.", hint="Give it a transactional_id."),
            )

    def _not_in_transaction(self, what: str) -> Exception:
        hint = "Call begin_transaction() first, or use `async with producer.transaction():`."
        return as_kind(errors.IllegalOperation, UsageError(f"{what} can't be sent: no transaction is open.", hint=hint))


class TransactionContext:
    """One `async with producer.transaction()`: commits at its end, aborts when that or the block fails."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __aenter__(self) -> Self:
        await self._transactions.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            await self._transactions.abort_if_open()
            return
        try:
            await self._transactions.commit()
        except BaseException:
            await self._transactions.abort_if_open()
            raise


def _places(offsets: Any) -> dict[TopicPartition, int | OffsetAndMetadata]:
    if not offsets or not isinstance(offsets, dict):
        raise as_kind(ValueError, UsageError(f"{offsets!r:.100} is not a dict of TopicPartition to offset."))
    return {_place(place): _offset(place, given) for place, given in offsets.items()}


def _place(given: Any) -> TopicPartition:
    is_place = isinstance(given, tuple) and getattr(given, "_fields", None) == ("topic", "partition")
    if not is_place:
        raise as_kind(TypeError, UsageError(f"{given!r:.100} is not a TopicPartition."))
    return TopicPartition(*given)


def _offset(place: Any, given: Any) -> int | OffsetAndMetadata:
    if isinstance(given, int):
        return given
    try:
        offset, metadata = given
    except (TypeError, ValueError):
        said = f"The offset of {place!r} is {given!r:.100}: give an int, or an offset and its metadata."
        raise as_kind(ValueError, UsageError(said)) from None
    if not isinstance(metadata, str):
        said = f"The metadata of the offset of {place!r} is of type {type(metadata).__name__}: give a str."
        raise as_kind(TypeError, UsageError(said))
    return OffsetAndMetadata(offset, metadata)
