"""A transaction in which several processes produce, begun and ended by one session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn

from aioprod.calls.committed_offsets import FIRST_STABLE, stable_offsets
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session, SessionUser
from aioprod.errors import (
    AioprodError,
    ConfigError,
    ErrorCode,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortedError,
    TransactionUnknownError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import DescribeTransactionsRequest, DescribeTransactionsResponse, OffsetFetchRequest
from aioprod.producer.transactions.codes import Meaning
from aioprod.producer.transactions.handle import TransactionHandle
from aioprod.producer.transactions.open_transaction import FIRST_IMPLICIT
from aioprod.producer.transactions.requests import (
    CoordinatorRequests,
    ProducerIdentity,
    Rejected,
    transaction_version,
)
from aioprod.producer.transactions.session_settings import TransactionSessionConfig
from aioprod.producer.transactions.status import TransactionStatus, status_of
from aioprod.types import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import TransactionSessionOptions

__all__ = ["TransactionSession"]

_LOST: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Codes of a transaction that has timed out, and of one whose transactional id was taken over."""


class TransactionSession(SessionUser):
    """Begins, and ends, transactions in which other processes produce; low-level, see docs/transaction-session.md.

        async with TransactionSession("host:9092", transactional_id="load-7") as session:
            handle = await session.begin()          # to be pickled and given to the workers
            ...                                     # each: `async with handle.producer("host:9092") as producer`
            await session.send_offsets({TopicPartition("source", 0): 42}, "load-7")
            await session.commit()

    `options` are fields of `TransactionSessionConfig` (Java's names in snake_case); they win over those of `config`.
    Touches no network before `start()`. One call at a time. Every call is retried for `default.api.timeout.ms` while
    brokers can't be reached or answer with a retriable error, and then raises RequestTimedOutError. Raises ConfigError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: TransactionSessionConfig | Mapping[str, Any] | None = None,
        **options: Unpack[TransactionSessionOptions],
    ) -> None:
        made = TransactionSessionConfig.given(config, bootstrap_servers, options)
        if not made.transactional_id:
            raise ConfigError(
                "transactional.id is not given.", hint="Give a name that no other running session or producer has."
            )
        self.config = made
        self._id: str = made.transactional_id
        self._session = Session(made, "transaction session")
        self._turn = asyncio.Lock()
        self._handle: TransactionHandle | None = None
        self._commit_tried = False
        self._coordination: CoordinatorRequests
        self._coordinator: Coordinator

    # --- life

    async def start(self) -> None:
        """Connect to the cluster; raises MetadataTimeoutError when no bootstrap server answers."""
        await super().start()
        client = self._session.client
        random = Random()  # noqa: S311  # for jitter
        self._coordination = CoordinatorRequests(client, self._id, self.config.transaction_timeout_ms, random)
        self._coordinator = Coordinator(client, "transaction", self._id)

    async def close(self) -> None:
        """Close all connections. An open transaction stays open: it ends by its time-out, or by the next `begin`."""
        await super().close()

    def check_brokers(self) -> None:
        """Raise UnsupportedVersionError for brokers that can't do all of this: 3.0 is the first version that can."""
        speaks = self._session.client.speaks
        if not (speaks(OffsetFetchRequest, at_least=FIRST_STABLE) and speaks(DescribeTransactionsRequest)):
            raise UnsupportedVersionError(
                "The brokers are too old for transactions whose outcome has to be known for certain.",
                hint="They have to be Kafka 3.0 or later; 4.0 or later is best.",
            )

    @property
    def handle(self) -> TransactionHandle | None:
        """The transaction that was begun last, None if it was ended or none was begun."""
        return self._handle

    # --- a transaction

    async def begin(self) -> TransactionHandle:
        """Begin a transaction with a new epoch.

        That aborts an open transaction of this transactional id and fences all its producers: no earlier transaction
        can be committed after this, so that `committed_offsets` is final for them. Raises AuthorizationError,
        ConfigError for a time-out that the brokers don't allow, BrokerError.
        """
        async with self._turn:
            deadline = self._deadline()
            self._handle = None
            try:
                identity = await self._coordination.initialize(ProducerIdentity(), deadline)
            except Rejected as rejected:
                raise rejected.error from None
            self._commit_tried = False
            self._handle = TransactionHandle(
                self._id,
                identity.producer_id,
                identity.epoch,
                max(1, min(transaction_version(self._session.client), FIRST_IMPLICIT)),
                self.config.transaction_timeout_ms,
            )
            return self._handle

    def resume(self, handle: TransactionHandle) -> None:
        """Continue a transaction that another session of this transactional id has begun, in any process.

        The other session must not end it as well: the answers that it gets would be ambiguous. Sends no request. Raises
        UsageError for the handle of another transactional id.
        """
        if handle.transactional_id != self._id:
            raise UsageError(
                f"A transaction of {handle.transactional_id!r} can't be ended by a session of {self._id!r}."
            )
        self._handle = handle
        self._commit_tried = False

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | tuple[int, str]], group: str | GroupMetadata
    ) -> None:
        """Commit a group's offsets together with the transaction.

        `offsets` maps (topic, partition) to the next offset, or to an `OffsetAndMetadata`; the partitions have to
        exist. A group that is given by its name needs no members. Raises TransactionAbortedError when the transaction
        was aborted or can only be aborted, ProducerFencedError after a takeover, AuthorizationError.
        """
        async with self._turn:
            handle, deadline = self._open("send_offsets"), self._deadline()
            metadata = GroupMetadata(group) if isinstance(group, str) else group
            identity = ProducerIdentity(handle.producer_id, handle.epoch)
            try:
                if not handle.is_implicit:
                    await self._coordination.add_offsets(identity, metadata.group_id, deadline)
                await self._coordination.commit_offsets(identity, offsets, metadata, deadline, adds=handle.is_implicit)
            except Rejected as rejected:
                await self._fail(handle, rejected, deadline)

    async def commit(self) -> None:
        """Commit the transaction, after all producers in it have had their acknowledgements.

        Brokers also commit an incomplete transaction: count what the workers report before. The request is retried
        until there is a definite answer. Raises TransactionUnknownError for any other answer, and for none in time: the
        transaction may be committed or not. `begin()` and then `committed_offsets()` show it by the offsets that were
        sent with it. Raises an error for a transaction without records and offsets.
        """
        async with self._turn:
            handle, deadline = self._open("commit"), self._deadline()
            self._commit_tried = True
            try:
                await self._end(handle, deadline, committed=True)
            except Rejected as rejected:
                await self._fail_as_unknown(handle, rejected.error, rejected.code, deadline)
            except RequestTimedOutError as error:
                await self._fail_as_unknown(handle, error, None, deadline)
            self._handle = None

    async def abort(self) -> None:
        """Abort the transaction; one that the brokers have aborted already is not an error, nor is one without records.

        Raises ProducerFencedError after a takeover, and TransactionUnknownError after a `commit()` whose outcome is
        unknown and which may have been carried out.
        """
        async with self._turn:
            handle, deadline = self._open("abort"), self._deadline()
            try:
                await self._end(handle, deadline, committed=False)
            except Rejected as rejected:
                if rejected.code not in _LOST:
                    raise rejected.error from None
                if self._commit_tried:
                    await self._fail_as_unknown(handle, rejected.error, rejected.code, deadline)
                status = await self._fetch_status(handle, deadline)
                if status is TransactionStatus.TAKEN_OVER:
                    raise self._taken_over() from rejected.error
                if status not in (TransactionStatus.OPEN, TransactionStatus.ABORTED):
                    raise rejected.error from None
            self._handle = None

    async def _end(self, handle: TransactionHandle, deadline: float, *, committed: bool) -> None:
        identity = ProducerIdentity(handle.producer_id, handle.epoch)
        await self._coordination.end(identity, deadline, committed=committed, raises_epoch=handle.is_implicit)

    # --- what is known

    async def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of a group for each of the partitions, None for none; never one that may be aborted.

        Waits while offsets are in a transaction that is being ended. Raises RequestTimedOutError when that takes too
        long: its hint names the tool for hanging transactions. Raises AuthorizationError, BrokerError.
        """
        coordinator = Coordinator(self._session.client, "group", group)
        return await stable_offsets(coordinator, partitions, self._deadline())

    async def status(self, handle: TransactionHandle) -> TransactionStatus:
        """The status of a transaction at its coordinator (KIP-664).

        It distinguishes a time-out from a takeover, which brokers answer with the same codes. Begin again only after a
        time-out. Raises RequestTimedOutError.
        """
        return await self._fetch_status(handle, self._deadline())

    async def _fetch_status(self, handle: TransactionHandle, deadline: float) -> TransactionStatus:
        def code_of(answer: DescribeTransactionsResponse) -> int:
            return answer.transaction_states[0].error_code if answer.transaction_states else ErrorCode.NONE

        request = DescribeTransactionsRequest(transactional_ids=(handle.transactional_id,))
        answer = await self._coordinator.request(request, deadline=deadline, error_of=code_of)
        if code_of(answer) != ErrorCode.NONE or not answer.transaction_states:
            return TransactionStatus.NOT_KNOWN
        return status_of(handle, answer.transaction_states[0])

    # --- failures

    async def _fetch_status_or_not_known(self, handle: TransactionHandle, deadline: float) -> TransactionStatus:
        """The status for an error that is raised in any case: tries for some seconds at least, and raises nothing."""
        try:
            return await self._fetch_status(handle, max(deadline, self._session.clock() + _EXTRA_S))
        except AioprodError:
            return TransactionStatus.NOT_KNOWN

    async def _fail(self, handle: TransactionHandle, rejected: Rejected, deadline: float) -> NoReturn:
        """Raise the error of a rejected request, by the status of the transaction."""
        if rejected.code in _LOST:
            status = await self._fetch_status_or_not_known(handle, deadline)
            if status is TransactionStatus.TAKEN_OVER:
                raise self._taken_over() from rejected.error
            if status is TransactionStatus.ABORTED:
                raise TransactionAbortedError(
                    f"The transaction of {self._id!r} was aborted, by its time-out or by its own session.",
                    hint=f"If it was open for longer than transaction.timeout.ms={handle.timeout_ms}, begin again, "
                    "but only once, with less to do in it or with a longer time-out.",
                ) from rejected.error
        elif rejected.meaning is Meaning.FAILED:
            raise TransactionAbortedError(
                f"The transaction of {self._id!r} can only be aborted: {rejected.error.message}",
                hint=rejected.error.hint,
            ) from rejected.error
        raise rejected.error from None

    def _taken_over(self) -> ProducerFencedError:
        return ProducerFencedError(
            f"Another session or producer with the transactional.id {self._id!r} took over.",
            hint="Stop, and see that only one of them runs: to begin again would fence the other one.",
        )

    async def _fail_as_unknown(
        self, handle: TransactionHandle, error: AioprodError, code: ErrorCode | int | None, deadline: float
    ) -> NoReturn:
        status = await self._fetch_status_or_not_known(handle, deadline)
        raise TransactionUnknownError(
            f"Whether the transaction of {self._id!r} was committed is not known: {error.message} "
            f"Its coordinator says of it now: {status.value}.",
            code=code,
            status=status,
            hint="Don't repeat its records: begin() and then committed_offsets() show it by the offsets sent with it.",
        ) from error

    # --- small things

    def _open(self, call: str) -> TransactionHandle:
        if self._handle is None:
            raise UsageError(f"{call}() can't be called: no transaction was begun.", hint="await begin() first.")
        return self._handle

    def _deadline(self) -> float:
        _ = self._session.client  # raises if the session is not started
        return self._session.clock() + self._session.timeout_s


_EXTRA_S: Final = 5.0
"""How long the status is fetched for an error although the timeout of the call is over."""
