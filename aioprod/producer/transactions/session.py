"""One transaction that several processes produce in: begun and ended in one place, by whoever holds the session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

from aioprod.core.transaction_codes import Meaning
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
from aioprod.group.committed_offsets import FIRST_STABLE, stable_offsets
from aioprod.messages import DescribeTransactionsRequest, DescribeTransactionsResponse, OffsetFetchRequest
from aioprod.net import Coordinator
from aioprod.net.session import Session, SessionUser
from aioprod.producer.transactions.handle import TransactionHandle
from aioprod.producer.transactions.participant import FIRST_IMPLICIT
from aioprod.producer.transactions.requests import (
    CoordinatorRequests,
    Offsets,
    ProducerIdentity,
    Refused,
    transaction_version,
)
from aioprod.producer.transactions.session_settings import TransactionSessionConfig
from aioprod.producer.transactions.status import TransactionStatus, status_of
from aioprod.types import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import TransactionSessionOptions

__all__ = ["TransactionSession"]

_LOST = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Codes that brokers give to a transaction that has timed out as well as to one that somebody took over."""


class TransactionSession(SessionUser):
    """Begins, and ends, transactions in which other processes produce; low-level, see docs/transaction-session.md.

        async with TransactionSession("host:9092", transactional_id="load-7") as session:
            handle = await session.begin()          # to be pickled and given to the workers
            ...                                     # each: `async with handle.producer("host:9092") as producer`
            await session.send_offsets({TopicPartition("source", 0): 42}, "load-7")
            await session.commit()

    `options` are fields of `TransactionSessionConfig` (Java's names in snake_case); they win over those of `config`.
    Touches no network before `start()`. One call at a time. Every call goes on trying for `default.api.timeout.ms`
    while brokers can't be reached or ask for patience, and raises RequestTimedOutError then. Raises ConfigError.
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

        That aborts what is open under this transactional id and fences all who still work on it: after this no
        earlier transaction can be committed any more, so that `committed_offsets` is the last word on them. Raises
        AuthorizationError, ConfigError for a time-out that the brokers don't allow, BrokerError.
        """
        async with self._turn:
            deadline = self._deadline()
            self._handle = None
            try:
                identity = await self._coordination.initialize(ProducerIdentity(), deadline)
            except Refused as refused:
                raise refused.error from None
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
        """Go on with a transaction that another session of this transactional id has begun, in whatever process.

        That one must not end it as well: what it hears is then no more than a guess. No broker is asked. Raises
        UsageError for the handle of another transactional id.
        """
        if handle.transactional_id != self._id:
            raise UsageError(
                f"A transaction of {handle.transactional_id!r} can't be ended by a session of {self._id!r}."
            )
        self._handle = handle
        self._commit_tried = False

    async def send_offsets(self, offsets: Offsets, group: str | GroupMetadata) -> None:
        """Commit a group's offsets together with the transaction.

        `offsets` maps (topic, partition) to the next offset, or to an `OffsetAndMetadata`; the partitions have to
        exist. A group that is given by its name needs no members. Raises TransactionAbortedError when the transaction
        is gone or can only be aborted, ProducerFencedError when somebody took over, AuthorizationError.
        """
        async with self._turn:
            handle, deadline = self._open("send_offsets"), self._deadline()
            whose = GroupMetadata(group) if isinstance(group, str) else group
            identity = ProducerIdentity(handle.producer_id, handle.epoch)
            try:
                if not handle.is_implicit:
                    await self._coordination.add_offsets(identity, whose.group_id, deadline)
                await self._coordination.commit_offsets(identity, offsets, whose, deadline, adds=handle.is_implicit)
            except Refused as refused:
                await self._lost(handle, refused, deadline)

    async def commit(self) -> None:
        """Commit the transaction, once all who produce in it have had their acknowledgements.

        Brokers commit as well what is incomplete: count what the workers report before. It is asked again until there
        is a clear answer. Raises TransactionUnknownError for every other answer, and for none in time: then it may be
        committed or not. `begin()` and `committed_offsets()` tell, by the offsets that were sent with it. A commit
        without any record or offset is refused.
        """
        async with self._turn:
            handle, deadline = self._open("commit"), self._deadline()
            self._commit_tried = True
            try:
                await self._end(handle, deadline, committed=True)
            except Refused as refused:
                await self._unknown(handle, refused.error, refused.code, deadline)
            except RequestTimedOutError as error:
                await self._unknown(handle, error, None, deadline)
            self._handle = None

    async def abort(self) -> None:
        """Abort the transaction; one that the brokers have aborted already is no error, nor is one without records.

        Raises ProducerFencedError when somebody took over, and TransactionUnknownError after a `commit()` whose
        outcome is not known and which may have been carried out.
        """
        async with self._turn:
            handle, deadline = self._open("abort"), self._deadline()
            try:
                await self._end(handle, deadline, committed=False)
            except Refused as refused:
                if refused.code not in _LOST:
                    raise refused.error from None
                if self._commit_tried:
                    await self._unknown(handle, refused.error, refused.code, deadline)
                standing = await self._standing(handle, deadline)
                if standing is TransactionStatus.TAKEN_OVER:
                    raise self._taken_over() from refused.error
                if standing not in (TransactionStatus.OPEN, TransactionStatus.ABORTED):
                    raise refused.error from None
            self._handle = None

    async def _end(self, handle: TransactionHandle, deadline: float, *, committed: bool) -> None:
        identity = ProducerIdentity(handle.producer_id, handle.epoch)
        await self._coordination.end(identity, deadline, committed=committed, raises_epoch=handle.is_implicit)

    # --- what is known

    async def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What a group has committed for each of the partitions, None for nothing; never what may still be undone.

        Offsets in a transaction that is being ended are waited for. Raises RequestTimedOutError when that takes too
        long: its hint names the tool for transactions that hang. Raises AuthorizationError, BrokerError.
        """
        coordinator = Coordinator(self._session.client, "group", group)
        return await stable_offsets(coordinator, partitions, self._deadline())

    async def status(self, handle: TransactionHandle) -> TransactionStatus:
        """How the coordinator sees a transaction (KIP-664).

        Tells a time-out from somebody who took over: brokers answer both with the same codes. Begin again only after
        the first. Raises RequestTimedOutError.
        """
        return await self._standing(handle, self._deadline())

    async def standing(self, handle: TransactionHandle) -> TransactionStatus:
        """The former name of `status`."""
        return await self.status(handle)

    async def _standing(self, handle: TransactionHandle, deadline: float) -> TransactionStatus:
        def code_of(answer: DescribeTransactionsResponse) -> int:
            return answer.transaction_states[0].error_code if answer.transaction_states else ErrorCode.NONE

        request = DescribeTransactionsRequest(transactional_ids=(handle.transactional_id,))
        answer = await self._coordinator.request(request, deadline=deadline, error_of=code_of)
        if code_of(answer) != ErrorCode.NONE or not answer.transaction_states:
            return TransactionStatus.NOT_KNOWN
        return status_of(handle, answer.transaction_states[0])

    # --- failures

    async def _standing_if_told(self, handle: TransactionHandle, deadline: float) -> TransactionStatus:
        """The same for an error that is raised in any case: at least a few seconds, and no error of its own."""
        try:
            return await self._standing(handle, max(deadline, self._session.clock() + _EXTRA_S))
        except AioprodError:
            return TransactionStatus.NOT_KNOWN

    async def _lost(self, handle: TransactionHandle, refused: Refused, deadline: float) -> NoReturn:
        """Raise what a refusal in the middle of a transaction means."""
        if refused.code in _LOST:
            standing = await self._standing_if_told(handle, deadline)
            if standing is TransactionStatus.TAKEN_OVER:
                raise self._taken_over() from refused.error
            if standing is TransactionStatus.ABORTED:
                raise TransactionAbortedError(
                    f"The transaction of {self._id!r} was aborted, by its time-out or by its own session.",
                    hint=f"If it was open for longer than transaction.timeout.ms={handle.timeout_ms}, begin again, "
                    "but only once, with less to do in it or with a longer time-out.",
                ) from refused.error
        elif refused.meaning is Meaning.FAILED:
            raise TransactionAbortedError(
                f"The transaction of {self._id!r} can only be aborted: {refused.error.message}", hint=refused.error.hint
            ) from refused.error
        raise refused.error from None

    def _taken_over(self) -> ProducerFencedError:
        return ProducerFencedError(
            f"Another session or producer with the transactional.id {self._id!r} took over.",
            hint="Stop, and see that only one of them runs: to begin again would fence the other one.",
        )

    async def _unknown(
        self, handle: TransactionHandle, error: AioprodError, code: ErrorCode | int | None, deadline: float
    ) -> NoReturn:
        standing = await self._standing_if_told(handle, deadline)
        raise TransactionUnknownError(
            f"Whether the transaction of {self._id!r} was committed is not known: {error.message} "
            f"Its coordinator says of it now: {standing.value}.",
            code=code,
            status=standing,
            hint="Don't repeat its records: begin() and then committed_offsets() tell by the offsets sent with it.",
        ) from error

    # --- small things

    def _open(self, call: str) -> TransactionHandle:
        if self._handle is None:
            raise UsageError(f"{call}() can't be called: no transaction was begun.", hint="await begin() first.")
        return self._handle

    def _deadline(self) -> float:
        _ = self._session.client  # refuses where it is not started
        return self._session.clock() + self._session.timeout_s


_EXTRA_S = 5.0
"""How long it is tried to learn more about a failure when the time for the call itself is over."""
